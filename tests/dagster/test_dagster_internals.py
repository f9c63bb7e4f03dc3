"""What is used of Dagster's private parts is still there and means what is needed of it, and is used in one file only."""

from __future__ import annotations

import ast
from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline import dagster_internals as internals
from tools.shape import PRODUCT

HOME = Path(internals.__file__)
PRIVATE = ("dagster._", "dagster_shared", "dagster.components.")


def private_imports(path: Path) -> list[str]:
    found: list[str] = []
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "dagster" in text else ():
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if name.startswith(PRIVATE)]


def test_private_parts_of_dagster_stand_in_one_file() -> None:
    root = HOME.parents[1]
    others = [path for package in PRODUCT for path in (root / package).rglob("*.py") if path != HOME]
    assert {path.name: found for path in others if (found := private_imports(path))} == {}
    names = {name.rpartition(".")[2] for name in private_imports(HOME)}
    assert names >= {"DATA_VERSION_TAG", "is_valid_owner", "is_valid_cron_string", "CheckError"}


@pytest.fixture
def event_tags() -> dict[str, str]:
    """The tags that Dagster itself writes to the event of an asset with an input."""

    @dg.asset(code_version="1")
    def a() -> dg.MaterializeResult:  # type: ignore[type-arg]
        return dg.MaterializeResult(data_version=dg.DataVersion("7"))

    @dg.asset(deps=[a], key=["p", "b"], code_version="2")
    def b() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([a, b], instance=instance).success
        event = instance.get_latest_materialization_event(dg.AssetKey(["p", "b"]))
    assert event is not None and event.asset_materialization is not None
    return dict(event.asset_materialization.tags or {})


def test_an_event_names_its_version_its_code_and_its_inputs_by_these_tags(event_tags: dict[str, str]) -> None:
    assert event_tags[internals.CODE_VERSION_TAG] == "2" and internals.DATA_VERSION_TAG in event_tags
    assert event_tags[f"{internals.INPUT_VERSION}a"] == "7"
    assert event_tags[f"{internals.INPUT_POINTER}a"].isdigit()


def test_an_input_that_was_read_at_no_event_is_no_new_dependency() -> None:
    tags = {
        internals.CODE_VERSION_TAG: "1",
        f"{internals.INPUT_VERSION}a": "7",
        f"{internals.INPUT_POINTER}a": internals.NULL_EVENT_POINTER,
    }
    known = dg.DataProvenance.from_tags(tags)
    assert known is not None and known.input_data_versions == {dg.AssetKey("a"): dg.DataVersion("7")}
    assert known.input_storage_ids == {dg.AssetKey("a"): None}


def test_an_asset_without_an_event_has_the_initial_version(event_tags: dict[str, str]) -> None:
    outside = dg.AssetSpec("outside")

    @dg.asset(deps=[outside])
    def reads() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([outside, reads], instance=instance, selection=[reads])
        event = instance.get_latest_materialization_event(dg.AssetKey("reads"))
    assert event is not None and event.asset_materialization is not None
    tags = event.asset_materialization.tags or {}
    assert tags[f"{internals.INPUT_VERSION}outside"] == internals.INITIAL_VERSION


def test_a_job_of_assets_is_of_the_type_that_is_named_here() -> None:
    job = dg.define_asset_job("j", selection="*")
    assert isinstance(job, internals.UnresolvedAssetJobDefinition) and job.name == "j"


@pytest.mark.parametrize("owner", ["team:ops", "a@b.org", "@a", "team:", "ops@localhost"])
def test_an_owner_is_valid_if_an_asset_may_have_it(owner: str) -> None:
    try:
        dg.AssetSpec("a", owners=[owner])
        is_taken = True
    except dg.DagsterInvalidDefinitionError:
        is_taken = False
    assert internals.is_valid_owner(owner) == is_taken


@pytest.mark.parametrize(
    ("cron", "valid"), [("0 6 * * *", True), ("6 pm", False), ("* * * * * *", False), ("0 0 31 2 *", False)]
)
def test_a_schedule_is_valid_if_it_has_five_parts_that_can_come(cron: str, valid: bool) -> None:
    assert internals.is_valid_cron_string(cron) == valid


def test_a_wrong_type_in_an_asset_raises_this_error() -> None:
    with pytest.raises(internals.CheckError):
        dg.AssetSpec("a", tags=7)  # type: ignore[arg-type]


def test_the_yaml_of_a_component_becomes_a_function_from_asset_to_asset() -> None:
    from dagster.components.resolved.context import ResolutionContext
    from dagster.components.resolved.core_models import AssetAttributesModel

    resolver = internals.TranslationFnResolver[str](template_vars_for_translation_fn=lambda one: {"one": one})
    model = AssetAttributesModel(key="{{ one }}_x", group_name="g")
    translate = resolver.fn.callable(ResolutionContext.default(), model)  # type: ignore[union-attr]
    spec = translate(dg.AssetSpec("a", tags={"t": ""}), "b")
    assert (spec.key, spec.group_name, dict(spec.tags)) == (dg.AssetKey("b_x"), "g", {"t": ""})
