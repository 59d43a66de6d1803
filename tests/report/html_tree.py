"""A page as a tree: what a test may ask of it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr", "base"}


class Node:
    """One element; ``pieces`` are its texts and elements in order."""

    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.pieces = tag, dict(attributes), []

    def __getitem__(self, name):
        return self.attributes[name]

    @property
    def text(self):
        """All text in it, white space as one blank."""
        parts = (piece if isinstance(piece, str) else piece.text for piece in self.pieces)
        return " ".join(" ".join(parts).split())

    def all(self, *tags):
        """Return the elements below it, in the order of the page."""
        found = []
        for piece in self.pieces:
            if not isinstance(piece, str):
                found += [piece] if not tags or piece.tag in tags else []
                found += piece.all(*tags)
        return found

    def one(self, tag, **attributes):
        """Return the only such element."""
        names = {name.replace("_", "-").rstrip("-"): value for name, value in attributes.items()}
        (found,) = [node for node in self.all(tag) if names.items() <= node.attributes.items()]
        return found


class _Builder(HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":  # a place to break a word, which it leaves one word
            return
        node = Node(tag, attrs)
        self.open[-1].pieces.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].pieces.append(Node(tag, attrs))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        pieces = self.open[-1].pieces
        if pieces and isinstance(pieces[-1], str):
            pieces[-1] += data
        else:
            pieces.append(data)


def parse(page):
    """Return the root of a page whose elements are all closed, in order."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.open == [builder.root]
    return builder.root
