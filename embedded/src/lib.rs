//! A small language model that runs inside the process.
