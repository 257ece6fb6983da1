"""Random changes to bytes and to nested values, for fuzz tests; each depends on the generator alone."""

import copy
from random import Random
from typing import Any

EDGES = (b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x80\x00\x00\x00", b"\r\n")
FUNCTION = {"class_path": "os.system", "init_args": {"command": "touch run-by-a-file"}}
NUMBERS = (None, True, -1, 0, 1, 3, 2.5, 1e9, 10**40, float("nan"), float("inf"))
TEXTS = ("", "x", "1", "nan", "9" * 5000, "a\nb\x1b[31m", "${oc.env:HOME}")
PATHS = ("/etc/passwd", "../../../../../../../../etc/passwd", "/dev/zero")
CLASSES = ("os.system", "subprocess.Popen", "torch.hub.load", "vitspeech.trust.os.system", "mine.Net")
LINEAR = {"class_path": "torch.nn.Linear", "init_args": {"in_features": 2, "out_features": 2}}
TREES = ([], {}, [1, 2], ["x", None], {"x": 1}, [[[[[[[[]]]]]]]], FUNCTION, {"class_path": "mine.Net"}, LINEAR)
VALUES: tuple[Any, ...] = (*NUMBERS, *TEXTS, *PATHS, *CLASSES, "vitspeech.ViT", "vitspeech.Shapes", *TREES)


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """Content with one to six random changes: bytes are replaced, inserted, deleted or repeated, or the end is cut."""
    content = bytearray(content)
    for _ in range(random.randint(1, 6)):
        # Headers matter most: half of the changes are in the first 200 bytes.
        place = random.randrange(min(len(content), 200) if random.random() < 0.5 else len(content)) if content else 0
        size = random.choice((1, 1, 2, 4, 8, 100, 5000))
        change = random.randrange(6)
        if change == 0:
            content[place : place + 1] = random.randbytes(1)
        elif change == 1:
            edge = random.choice(EDGES)
            content[place : place + len(edge)] = edge
        elif change == 2:
            content[place:place] = random.randbytes(size)
        elif change == 3:
            del content[place : place + size]
        elif change == 4:
            content[place:place] = content[place : place + size]
        else:
            del content[place if random.random() < 0.3 else max(len(content) - size, 0) :]
    return bytes(content)


def places(tree: Any, path: tuple = ()) -> list[tuple]:
    """The paths of all values in nested dictionaries and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in items for found in ((*path, key), *places(value, (*path, key)))]


def at(tree: Any, path: tuple) -> Any:
    """The value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def mutated_tree(tree: Any, random: Random) -> Any:
    """Nested values with one to three random changes: values replaced, moved or deleted, keys renamed or added."""
    tree = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        paths = places(tree)
        if not paths:
            return random.choice(VALUES)
        *parents, key = random.choice(paths)
        parent, change = at(tree, tuple(parents)), random.randrange(8)
        if change == 0:
            del parent[key]
        elif change == 1 and isinstance(parent, dict):
            parent[random.choice(("modle", "x", "class_path", "init_args", "", 5))] = parent.pop(key)
        elif change == 2 and isinstance(parent, dict):
            parent[random.choice(("modle", "x", "class_path", "init_args", "extends"))] = random.choice(VALUES)
        elif change == 3:
            parent[key] = copy.deepcopy(at(tree, random.choice(paths)))
        elif change == 4 and isinstance(parent[key], int | float):
            parent[key] = random.choice((-parent[key], 1000 * parent[key], parent[key] + 0.5, str(parent[key])))
        else:
            parent[key] = copy.deepcopy(random.choice(VALUES))
    return tree
