//! Five questions about this very repository, answered by a scripted model through the real tools.
