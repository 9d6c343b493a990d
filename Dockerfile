# One static image with both binaries. `cargo xtask images` builds them and gives their folder as the context.
FROM scratch
COPY keeper /keeper
COPY keeper-operator /keeper-operator
USER 65532:65532
# Clients, peers, admin, health and metrics.
EXPOSE 2181 9234 9235 8080
ENTRYPOINT ["/keeper"]
