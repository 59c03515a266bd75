"""What tests, proof and benchmarks share: real servers, a browser, apps and stores to try."""
