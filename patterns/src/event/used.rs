//! What was used, as an event tells it: what was not used is left out.

use serde::Serializer;

use crate::reply::Usage;

/// The fields of a usage, by name.
pub(crate) fn fields(usage: &Usage) -> [(&'static str, u64); 7] {
    let Usage {
        input_tokens,
        output_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens,
        cache_read_tokens,
        thinking_tokens,
        web_searches,
    } = *usage;
    [
        ("input_tokens", input_tokens),
        ("output_tokens", output_tokens),
        ("cache_write_5m_tokens", cache_write_5m_tokens),
        ("cache_write_1h_tokens", cache_write_1h_tokens),
        ("cache_read_tokens", cache_read_tokens),
        ("thinking_tokens", thinking_tokens),
        ("web_searches", web_searches),
    ]
}

pub(super) fn serialize<S: Serializer>(usage: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields(usage).into_iter().filter(|(_, n)| *n > 0))
}
