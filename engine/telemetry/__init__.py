"""What a process tells from outside while it works: traces and metrics by OpenTelemetry, asked for by variables OTEL_…"""
