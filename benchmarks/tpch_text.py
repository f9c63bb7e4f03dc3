"""The words of TPC-H: lists of values from the public specification (clause 4.2.2.13), and a pool of comments."""

from __future__ import annotations

import functools
import random

REGIONS = (
    ("AFRICA", ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE")),
    ("AMERICA", ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES")),
    ("ASIA", ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM")),
    ("EUROPE", ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM")),
    ("MIDDLE EAST", ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA")),
)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
TYPES = tuple(
    f"{grade} {finish} {metal}"
    for grade in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for finish in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for metal in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
CONTAINERS = tuple(
    f"{size} {shape}"
    for size in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for shape in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
)
# (brand, container, largest size): what queries 17 and 19 look for.
SOUGHT = ((12, "SM BOX", 5), (23, "MED BOX", 10), (34, "LG BOX", 15), (23, "MED BAG", 10))
_COLOURS = """
almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished
chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick
floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender
lawn lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive
orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy
seashell sienna sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow
"""
COLOURS = tuple(_COLOURS.split())
STREETS = tuple(
    f"{tree} {way}" for tree in ("Oak", "Elm", "Ash", "Birch", "Cedar") for way in ("St", "Ave", "Way")
)

_ADVERBS = ("quickly", "slowly", "carefully", "blithely", "furiously", "daringly")
_ADJECTIVES = ("special", "pending", "unusual", "express", "regular", "final", "ironic", "bold", "silent")
_NOUNS = (
    "requests",
    "deposits",
    "packages",
    "accounts",
    "instructions",
    "foxes",
    "theodolites",
    "pinto beans",
)
_VERBS = ("sleep", "haggle", "nag", "wake", "cajole", "detect", "integrate", "boost", "engage")
_POOL = 4_096


@functools.cache
def build_sentences() -> tuple[str, ...]:
    """Return the pool that comments are drawn from; about one in seventy says "special … requests"."""
    chance = random.Random(42)
    made = (
        f"{chance.choice(_ADVERBS)} {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)} {chance.choice(_VERBS)} "
        f"{chance.choice(_ADVERBS)} {chance.choice(_NOUNS)}"
        for _ in range(_POOL)
    )
    return tuple(made)
