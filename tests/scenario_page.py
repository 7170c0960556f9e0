"""docs/scenarios.md: every setting of a scenario, every preset, story, dialect and knob."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from enum import StrEnum

from pipeline.simulate.dialects import load_dialects
from pipeline.simulate.dirt import MEANINGS
from pipeline.simulate.laws import Law, LawName
from pipeline.simulate.scenario import Scenario, load, preset_names
from pipeline.simulate.stories import load_stories

HEAD = """\
# Scenarios

What `wallsplit simulate` can be told ([how to use it](simulate.md)). Times are seconds unless the
name says otherwise. A setting of the type `law` is a number or a law by its mean:

    {{ law = "weibull", mean = 600, shape = 0.7 }}

Laws: {laws}.
`shape` is that of a Weibull law, `sigma` that of a lognormal one, `half_width` the share of the
mean to which a uniform one reaches. Unknown settings are refused, with all other mistakes at once.
"""


def scenarios() -> str:
    """The whole page."""
    lines = [HEAD.format(laws=", ".join(LawName)), "## Settings", ""]
    lines += _section(Scenario, "", "the top of the file")
    lines += ["## Presets", "", "| preset | shows | figures from |", "|---|---|---|"]
    for name in preset_names():
        scenario = load(name)
        lines.append(
            f"| `{name}` | {scenario.title} | {'; '.join(scenario.sources) or 'made up'} |"
        )
    lines += ["", "## Stories", "",
              "What a failure is and what it leaves behind (`pipeline/simulate/stories.toml`).", "",
              "| story | type | domain | state of the job | root signature |",
              "|---|---|---|---|---|"]  # fmt: skip
    for story in load_stories().values():
        signature = f"`{story.signature}`" if story.signature else "none"
        lines.append(f"| `{story.id}` | `{story.type}` | {story.domain} | {story.state or '-'} | "
                     f"{signature} |")  # fmt: skip
    lines += ["", "## Dialects", "", "| dialect | writes like |", "|---|---|"]
    lines += [f"| `{name}` | {d.title} |" for name, d in sorted(load_dialects().items())]
    lines += ["", "## Knobs of dirt", "", "| knob | what is wrong with the logs |", "|---|---|"]
    lines += [f"| `{knob}` | {meaning} |" for knob, meaning in MEANINGS.items()]
    return "\n".join([*lines, ""])


def _section(kind: type, name: str, meaning: str) -> Iterator[str]:
    """A table of one section, then those of the sections inside it."""
    yield f"### {f'`{name}`: ' if name else ''}{meaning}"
    yield ""
    yield "| setting | type | default | meaning |"
    yield "|---|---|---|---|"
    inner = []
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        is_list = typing.get_origin(hint) is tuple
        item = typing.get_args(hint)[0] if is_list else hint
        if dataclasses.is_dataclass(item) and item is not Law:
            prefix = name.strip("[]")
            path = f"{prefix}.{field.name}" if prefix else field.name
            label = f"[[{path}]]" if is_list else f"[{path}]"
            inner.append((item, label, field.metadata["meaning"]))
            continue
        yield (f"| `{field.name}` | {_type(hint)} | {_default(field)} | "
               f"{field.metadata['meaning']} |")  # fmt: skip
    yield ""
    for item, label, text in inner:
        yield from _section(item, label, text)


def _type(hint: typing.Any) -> str:
    if typing.get_origin(hint) is types.UnionType:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        return f"array of {_type(typing.get_args(hint)[0])}"
    if issubclass(hint, StrEnum):
        return "word"
    return {"str": "text", "bool": "true or false"}.get(hint.__name__, hint.__name__.lower())


def _default(field: dataclasses.Field[typing.Any]) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, Law):
        value = value.mean
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
