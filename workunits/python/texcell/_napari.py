"""Widgets for napari, one for each analysis: fields for the parameters, from their JSON, and layers
with the result."""
from __future__ import annotations

import json
from typing import Any, Optional

import numpy as np
from magicgui.widgets import (CheckBox, ComboBox, Container, LineEdit, PushButton, SpinBox,
                              create_widget)
from napari.qt.threading import thread_worker

from ._call import analyse, suggest
from ._program import json_or_word, parameters
from ._result import Result


def field(p: dict[str, Any]) -> Any:
    """The field of a parameter: a check box, a choice or an integer; otherwise a text field for
    JSON or a word, which is the default if it is empty."""
    unit = ", %s" % p["unit"] if "unit" in p else ""
    common = dict(name="p_" + p["key"], label=p["key"].replace("_", " "),
                  tooltip="%s\n(%s%s)" % (p["help"], p["value"], unit))
    for inner in p.get("keys", []):
        common["tooltip"] += "\n%s: %s" % (inner["key"], inner["help"])
    default = p.get("default")
    if p["type"] == "boolean":
        return CheckBox(value=bool(default) or p["key"] == "labels", **common)
    if p["type"] == "choice":
        return ComboBox(choices=p["choices"], value=default, nullable="default" not in p, **common)
    if p["type"] == "integer" and "choices" not in p and default is not None:
        return SpinBox(value=default, min=int(p["minimum"]), max=int(min(p["maximum"], 2**31 - 1)),
                       **common)
    return LineEdit(value="" if default is None else json.dumps(default), **common)


def value_of(box: Any) -> Any:
    if not isinstance(box, LineEdit):
        return box.value
    return json_or_word(box.value.strip()) if box.value.strip() else None


class Widget(Container):  # type: ignore[type-arg, misc, unused-ignore]
    """The widget of an analysis, which a subclass names."""

    analysis = ""

    def __init__(self, napari_viewer: Any) -> None:
        self.viewer: Any = napari_viewer
        self.worker: Any = None
        self.result: Optional[Result] = None
        self.image = create_widget(annotation="napari.layers.Image", name="image", label="image")
        self.matching = create_widget(annotation="Optional[napari.layers.Labels]", name="matching",
                                      label="labels" if self.analysis == "objects" else "mask")
        self.known = parameters(self.analysis)
        self.fields = {p["key"]: field(p) for p in self.known}
        look, start = PushButton(text="Suggest"), PushButton(text="Run")
        look.changed.connect(lambda: self.begin(suggest, self.fill))
        start.changed.connect(lambda: self.begin(analyse, self.show_result))
        super().__init__(widgets=[self.image, self.matching, *self.fields.values(), look, start])

    def given(self) -> dict[str, Any]:
        """The parameters that differ from the defaults."""
        values = {p["key"]: value_of(self.fields[p["key"]]) for p in self.known}
        return {p["key"]: values[p["key"]] for p in self.known
                if values[p["key"]] not in (None, p.get("default"))}

    def begin(self, what: Any, then: Any) -> None:
        """Starts `what` in another thread, and calls `then` with its result. napari shows
        exceptions."""
        if self.image.value is None:
            raise ValueError("no image to look at: open one")
        given: dict[str, Any] = {} if what is suggest else {**self.given(), "progress": False,
                                                            "defaults": True}
        if self.matching.value is not None:
            given["labels" if self.analysis == "objects" else "masks"] = self.matching.value
        image = self.image.value
        self.worker = thread_worker(what)(image, self.analysis, **given)
        self.worker.returned.connect(lambda found: then(found, image))
        self.worker.start()

    def fill(self, found: dict[str, Any], _image: Any) -> None:
        for key, value in found.items():
            box = self.fields[key]
            box.value = (value if not isinstance(box, LineEdit) else value if isinstance(value, str)
                         else json.dumps(value))

    def show_result(self, result: Result, image: Any) -> None:
        self.result = result
        name, common = result.names[0], {"scale": image.scale, "metadata": {"texcell": result}}
        if getattr(image, "units", None) is not None:
            common["units"] = image.units
        for what, pictures in (("regions", result.labels), ("inside", result.masks)):
            if name in pictures:
                self.viewer.add_labels(pictures[name], name="%s %s" % (image.name, what), **common)
        for what, picture in result.maps.get(name, {}).items():
            self.viewer.add_image(picture, name="%s %s" % (image.name, what), colormap="viridis",
                                  **common)
        for title, table in result.tables.items():
            places = [c for c in ("z", "y", "x", "centroid_z", "centroid_y", "centroid_x")
                      if c in table]
            if len(places) == len(image.scale) and len(table["item"]):
                self.viewer.add_points(np.column_stack([table[c] for c in places]),
                                       name="%s %s: places" % (image.name, title),
                                       features=dict(table), size=3, face_color="yellow", **common)


Cellcount, Objects, Voting, Volume, Levelset, Glcm = (
    type(name.title(), (Widget,), {"analysis": name, "__module__": __name__})
    for name in ("cellcount", "objects", "voting", "volume", "levelset", "glcm"))
