"""The pickers, one decision a file."""

from engine.hummock.compaction.pickers.expired import BelowWatermark, PastTtl, choose_hidden_epoch
from engine.hummock.compaction.pickers.full import Full
from engine.hummock.compaction.pickers.level import Level
from engine.hummock.compaction.pickers.space_reclaim import SpaceReclaim
from engine.hummock.compaction.pickers.tier import Tier
from engine.hummock.compaction.pickers.to_base import ToBase
from engine.hummock.compaction.pickers.tombstone import Tombstone
from engine.hummock.compaction.pickers.trivial_move import TrivialMove
from engine.hummock.compaction.pickers.vnode import VnodeAlignment

__all__ = [
    "BelowWatermark",
    "Full",
    "Level",
    "PastTtl",
    "SpaceReclaim",
    "Tier",
    "ToBase",
    "Tombstone",
    "TrivialMove",
    "VnodeAlignment",
    "choose_hidden_epoch",
]
