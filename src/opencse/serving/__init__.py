"""The HTTP server: `app` has its routes, `service` the models and indexes that they use."""
