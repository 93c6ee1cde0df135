"""The local server: the service's contract on loopback, over an embedded or a scripted engine.

``engine`` says what an engine is; ``llama`` and ``scripted`` are two. ``app`` answers HTTP, ``service``
decides what a request means, ``shape`` writes vLLM's JSON, ``run`` opens the port.
Nothing here knows the client, notebooks or frames; the vocabulary is ``wire``, ``errors`` and ``checks``.
"""
