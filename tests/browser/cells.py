"""Notebook cells for the browser tests: a session is built and fed by hand, no server is asked."""

SETUP = r'''
import math, random, threading, time
from IPython.display import display
from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.live import LiveCell
from acs_jupyter.wire import CompletionRequest

WORDS = """the light keeper climbed each evening to the lamp and wrote what sea had said in a book that nobody
would read ; then Mara laughed , because tides are honest and people only sometimes know it .""".split()

def tokens(count, seed=1, alternatives=5):
    """(token, logprob, top) as a base model gives them, from a seeded generator."""
    rng = random.Random(seed)
    for i in range(count):
        if i % 61 == 60:
            word = "\n" if i % 3 else ".\n\n"
        else:
            word = (" " if i else "") + rng.choice(WORDS)
        lp = -min(12.0, rng.expovariate(0.6) ** 1.6)
        rest = 1 - math.exp(lp)
        top = {word: lp}
        for j in range(alternatives):
            rest *= 0.55
            top[" " + rng.choice(WORDS) + ("s" * (j % 2))] = math.log(max(rest, 1e-6) * 0.8)
        yield word, lp, top

session = Session()

def open_run(run, prompt="The lighthouse", n=1, **fields):
    request = CompletionRequest(prompt=prompt, model="meta-llama/Llama-3.1-405B", n=n, logprobs=5, max_tokens=20000, **fields)
    return ev.opening(run, request)

def head(run, **headers):
    return ev.Served(run, "meta-llama/Llama-3.1-405B", "cmpl-7c1f0e2ab94d4d31", "req-5d0f2c9a61b34e77", headers)

def arrived(node, made):
    word, lp, top = made
    return ev.TokensArrived(node, word, (word,), (lp,), (top,))
'''
