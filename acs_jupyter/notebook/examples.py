"""The examples of ``%acs help TOPIC``: cells that run as they stand, one after the other.

Owns them, a topic a tuple; the tests run every one against a server. It must not know more of the package than a
reader does.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "prompt": (
        "%%acs --max-tokens 20\nThe capital of France is",
        'city = "Rome"',
        "%%acs --fmt --max-tokens 20\nThe best thing about @@{city} is",
        "%%acs --dry\nThe capital of France is",
    ),
    "options": ("%%acs -n 2 -t 0.8 --seed 7 --stop '\\n' --max-tokens 20 --logprobs 3\nOnce upon a time",),
    "result": (
        "%%acs -o paris --max-tokens 10\nThe capital of France is",
        "print(paris.text, paris.tokens[0].alternatives[:2], paris.usage, paris.request_id)",
        "paris.to_frame()",
    ),
    "continue": (
        "%%acs -o story --max-tokens 20\nOnce upon a time",
        "%%acs --in story --max-tokens 20\n and then",
    ),
    "workbench": (
        'from acs_jupyter import Workbench\n\nWorkbench(prompt="Once upon a time", max_tokens=20)',
    ),
    "loom": (
        "from acs_jupyter import Client, Loom\n\n"
        'loom = Loom("Once upon a time", client=Client(), temperature=1.0, max_tokens=10)',
        "(root,) = loom.roots\nfirst, *others = loom.grow(root, 3)",
        'loom.where("logprob < -3"), loom.logprob(first).per_token',
        "loom",
    ),
    "where": (
        "from acs_jupyter import Client, Loom\n\n"
        'tree = Loom("Once upon a time", client=Client(), temperature=1.0, max_tokens=10)\n'
        "grown = tree.grow(tree.roots[0], 3)",
        'tree.where("logprob < -3"), tree.where(\'finish == "length" and tokens > 5\')',
        "tree.select(tree.where('text contains \"the\" or bookmark'))\ntree.selected",
    ),
    "compare": (
        "from acs_jupyter import Compare\n\n"
        'board = Compare("Once upon a time", [{"temperature": 0.3}, {"temperature": 1.0}], max_tokens=20)',
        "board.run().wait()\nboard.frame()",
    ),
    "score": (
        "from acs_jupyter import choose, next_token, score\n\n"
        'score("The quick brown fox jumps over the lazy dog.", top=3).to_frame()',
        'choose("The capital of France is", [" Paris", " Lyon"], by="token")',
        'next_token("The capital of France is").top(5)',
    ),
    "inspect": (
        'from acs_jupyter import Inspector\n\nInspector("The quick brown fox jumps over the lazy dog.")',
        "from acs_jupyter import Surgery\n\n"
        'cut = Surgery("Paris is in France. It rains. The capital of France is", " Paris")\ncut.run()\ncut.to_frame()',
    ),
    "rollout": (
        "from acs_jupyter import rollout\n\n"
        'run = rollout(["One", "Two"], seeds=range(2), max_tokens=8, into="run.acs.db")\nrun.frame()',
    ),
    "jobs": (
        "%%acs --job -o night --max-tokens 20\nThe lighthouse keeper wrote",
        "night.wait(600)",
        "%acs jobs",
    ),
    "budget": (
        "%acs budget --limit 3m",
        "%%acs --budget 2000 --max-tokens 20\nThe capital of France is",
        "%acs budget",
        "%acs budget --limit none",
    ),
    "saved": (
        "%%acs --max-tokens 10\nThe capital of France is",
        "%acs last",
        "%acs recover all",
    ),
    "settings": (
        "%acs set max_tokens 40",
        "%acs settings",
        "%acs set max_tokens default",
    ),
    "errors": ("%acs debug on", "%acs debug off"),
    "python": (
        "from acs_jupyter import Client\n\n"
        "with Client() as client:\n"
        '    completion = client.complete("The capital of France is", max_tokens=8, temperature=0, logprobs=5)\n'
        '    for token in client.stream("Once upon a time", max_tokens=8):\n'
        '        print(token.text, end="")',
    ),
}


def of(topic: str) -> str:
    """A topic's examples as they are typed, or ``""``."""
    cells = EXAMPLES.get(topic, ())
    if not cells:
        return ""
    bodies = ("\n".join(f"    {line}".rstrip() for line in cell.split("\n")) for cell in cells)
    return "\n\nTry it, each as a cell of its own:\n\n" + "\n\n".join(bodies)
