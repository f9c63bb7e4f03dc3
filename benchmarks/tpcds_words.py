"""The values of TPC-DS's columns: small domains of our own in which the queries' constants occur often enough to find rows."""

from __future__ import annotations

# (state, hours from Greenwich, counties)
PLACES = (
    ("TN", -5, ("Williamson County", "Jefferson County")),
    ("OH", -5, ("Jefferson County", "Perry County")),
    ("KY", -5, ("Rush County", "Barren County")),
    ("VA", -5, ("Orange County", "Page County")),
    ("GA", -5, ("Jefferson County", "Union County")),
    ("IN", -5, ("Rush County", "La Porte County")),
    ("NJ", -5, ("Ocean County", "Salem County")),
    ("CT", -5, ("Windham County",)),
    ("TX", -6, ("Orange County", "Terry County")),
    ("MS", -6, ("Union County",)),
    ("IL", -6, ("Perry County", "Jersey County")),
    ("MN", -6, ("Rice County",)),
    ("WI", -6, ("Jefferson County",)),
    ("LA", -6, ("Franklin Parish", "Union County")),
    ("IA", -6, ("Jefferson County",)),
    ("AR", -6, ("Perry County",)),
    ("OK", -6, ("Garvin County",)),
    ("ND", -6, ("Toole County",)),
    ("NM", -7, ("Dona Ana County",)),
    ("CO", -7, ("Mesa County", "Jefferson County")),
    ("CA", -8, ("Orange County",)),
    ("WA", -8, ("Ferry County",)),
    ("OR", -8, ("Jefferson County",)),
)
SHOP_PLACES = (
    ("TN", -5, ("Williamson County",)),
    ("TN", -5, ("Williamson County",)),
    ("LA", -5, ("Franklin Parish",)),
    ("CA", -8, ("Orange County",)),
)
"""Where stores and call centers are: half of them in one county."""
SHOP_CITIES = ("Midway", "Fairview")
CITIES = (
    *SHOP_CITIES,
    "Edgewood",
    "Oakdale",
    "Riverton",
    "Lakeside",
    "Greenfield",
    "Hillcrest",
    "Milford",
    "Stonebridge",
    "Westport",
    "Ashland",
)
ZIPS = ("24128", "76232", "65084", "87816", "85669", "86197")
"""The postal codes that queries look for; others are made."""
STREETS = ("Oak", "Elm", "Ash", "Birch", "Cedar", "Main", "Park", "Lake", "Hill", "Mill")
STREET_TYPES = ("Street", "Avenue", "Way", "Lane", "Court")
LOCATIONS = ("apartment", "condo", "single family")
GENDERS = ("M", "F")
MARRIED = ("M", "S", "D", "W", "U")
EDUCATIONS = (
    "Primary",
    "Secondary",
    "College",
    "2 yr Degree",
    "4 yr Degree",
    "Advanced Degree",
    "Unknown",
)
RATINGS = ("Good", "Low Risk", "High Risk", "Unknown")
POTENTIALS = (">10000", "5001-10000", "1001-5000", "501-1000", "0-500", "Unknown")
SALUTATIONS = ("Mr.", "Mrs.", "Ms.", "Dr.", "Sir", "Miss")
FIRST_NAMES = (
    "Ada",
    "Ben",
    "Carla",
    "David",
    "Elena",
    "Frank",
    "Grace",
    "Hugo",
    "Iris",
    "Jack",
    "Kate",
    "Leo",
    "Mary",
    "Noah",
    "Olga",
    "Paul",
)
LAST_NAMES = (
    "Adams",
    "Baker",
    "Clark",
    "Davis",
    "Evans",
    "Foster",
    "Green",
    "Harris",
    "Irwin",
    "Jones",
    "King",
    "Lewis",
    "Moore",
    "Nelson",
    "Owens",
    "Parker",
    "Reed",
    "Smith",
    "Turner",
    "Walker",
)
COUNTRIES = (
    "UNITED STATES",
    "CANADA",
    "FRANCE",
    "JAPAN",
    "PERU",
    "KENYA",
    "INDIA",
    "POLAND",
    "CHILE",
    "FIJI",
)
CLASSES = {
    "Women": ("dresses", "fragrances", "maternity", "pants"),
    "Men": ("accessories", "pants", "shirts", "sports-apparel"),
    "Children": ("infants", "toddlers", "reference", "personal"),
    "Shoes": ("athletic", "kids", "mens", "womens"),
    "Music": ("classical", "country", "pop", "rock"),
    "Jewelry": ("birdal", "rings", "diamonds", "pendants"),
    "Home": ("bedding", "lighting", "rugs", "tables"),
    "Sports": ("football", "tennis", "golf", "fishing"),
    "Books": ("reference", "self-help", "computers", "history"),
    "Electronics": ("personal", "portable", "stereo", "televisions"),
}
PLAIN_BRANDS = tuple(
    f"{first}{second} #{number}"
    for first in ("amalg", "edu pack", "exporti", "importo")
    for second in ("amalg", "importo", "scholar")
    for number in (1, 2)
)
"""Brands of clothes, shoes and music; of all else the others."""
LONG_BRANDS = tuple(
    f"{first}{second}amalg #{number}"
    for first in ("scholar", "exporti", "corp", "brand")
    for second in ("amalg", "univ")
    for number in (7, 9, 14)
)
WORN = frozenset(("Women", "Men", "Shoes", "Music", "Jewelry"))
_COLORS = """
blanched blue brown burlywood burnished chiffon cornflower cyan deep floral forest frosted ghost honeydew indian khaki
light medium midnight orange pale papaya powder purple red slate snow spring white yellow
"""
COLORS = tuple(_COLORS.split())
SIZES = ("N/A", "petite", "small", "medium", "large", "extra large", "economy")
UNITS = (
    "Ounce",
    "Oz",
    "Bunch",
    "Ton",
    "N/A",
    "Dozen",
    "Box",
    "Pound",
    "Pallet",
    "Gross",
    "Cup",
    "Each",
    "Lb",
)
SOUGHT_KINDS = (
    ("Women", "powder", "Ounce", "medium"),
    ("Men", "floral", "Dozen", "petite"),
    ("Women", "midnight", "Pallet", "extra large"),
    ("Men", "forest", "Lb", "medium"),
)
"""What one query counts, among makers of `SOUGHT_MAKERS`."""
SOUGHT_MAKERS = (738, 779)
MAKERS = (128, 977, 350, 677, 940, 694, 808, 129, 270, 821, 423, 745, 760, 775)
MANAGERS = 40
SYLLABLES = ("ought", "able", "pri", "ese", "anti", "cally", "ation", "eing")
SHIP_TYPES = ("EXPRESS", "NEXT DAY", "OVERNIGHT", "REGULAR", "TWO DAY")
CARRIERS = ("DHL", "BARIAN", "UPS", "FEDEX")
SHIP_CODES = ("AIR", "SURFACE", "SEA")
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MEALS = ((6, 9, "breakfast"), (12, 13, "lunch"), (17, 21, "dinner"))
"""The first and the last hour of a meal."""
SHIFTS = ("third", "first", "second")
SUB_SHIFTS = ("night", "morning", "afternoon", "evening")
DEPARTMENT = "DEPARTMENT"
PAGE_TYPES = ("monthly", "quarterly", "bi-annual")
WEB_TYPES = ("order", "welcome", "review", "feedback", "protected", "dynamic")
