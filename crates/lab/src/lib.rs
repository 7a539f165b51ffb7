//! The laboratory: benchmarks, and the experiments of the papers.
