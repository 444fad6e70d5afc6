"""Engines: something with `generate(rid, input_ids, sampling) -> Completion`, over HTTP.

`base` holds the vocabulary, `contract` the pure rules that an answer must meet, `refusals` what an
HTTP error means, `redact` keeps secrets out of what is stored, `wire` is the one HTTP session,
`sglang` and `llamacpp` are the two engines, `opening` the table of kinds, and `pool` puts several
endpoints of one kind behind the same call.
"""
