"""COLLADA files in a form that meshcat's page can draw."""

from __future__ import annotations

from lxml import etree

from vi_contact.viewer.textures import parse

KINDS = ("{*}triangles", "{*}polylist", "{*}polygons")


def with_even_textures(text: str) -> str:
    """The same file, with texture coordinates of zero for parts that have none, if others do.

    The page joins the parts of a file, which must then have the same attributes.
    """
    if 'semantic="TEXCOORD"' not in text:
        return text
    root = parse(text)
    bare = [part for part in root.iter(*KINDS) if _input(part, "TEXCOORD") is None]
    if not bare:
        return text
    namespace = etree.QName(root).namespace
    tag = f"{{{namespace}}}" if namespace else ""
    for mesh in root.iter("{*}mesh"):
        parts = [part for part in mesh.iter(*KINDS) if part in bare]
        if not parts:
            continue
        name = f"{mesh.getparent().get('id')}-no-texture"
        count = sum(int(source.get("count", "0")) for source in mesh.iter("{*}float_array"))
        mesh.insert(0, _zeros(tag, name, count))  # more than any of its indices
        for part in parts:
            vertex = _input(part, "VERTEX")
            offset = "0" if vertex is None else str(vertex.get("offset"))
            values = {"semantic": "TEXCOORD", "source": f"#{name}", "offset": offset, "set": "0"}
            part.insert(0, etree.Element(f"{tag}input", values))
    return etree.tostring(root, encoding="unicode")


def _input(part: etree._Element, semantic: str) -> etree._Element | None:
    return next((i for i in part.iter("{*}input") if i.get("semantic") == semantic), None)


def _zeros(tag: str, name: str, count: int) -> etree._Element:
    """A source of pairs of numbers."""
    source = etree.Element(f"{tag}source", {"id": name})
    array = {"id": f"{name}-array", "count": str(2 * count)}
    etree.SubElement(source, f"{tag}float_array", array).text = " ".join(["0"] * (2 * count))
    common = etree.SubElement(source, f"{tag}technique_common")
    rows = {"source": f"#{name}-array", "count": str(count), "stride": "2"}
    accessor = etree.SubElement(common, f"{tag}accessor", rows)
    for axis in ("S", "T"):
        etree.SubElement(accessor, f"{tag}param", {"name": axis, "type": "float"})
    return source
