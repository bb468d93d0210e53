"""The HTTP server.

A request passes through these modules: `server` and `connections` (socket), `guard` (host and key), `app` (routes),
`request_body` and `schemas` (body), `service` (finds model and index), `served_model` (tokens), `batching` (vectors),
`served_index` (search), and `errors` if it fails.
"""
