"""PromQL over columnar samples: parser, vectorised evaluation, Prometheus JSON."""
