//! Keeping a long conversation small.

use crate::message::{Block, Message, Role};

const CLEARED: &str = "[cleared to save room; call the tool again if this is needed]";

/// Replaces all results of tools but the last `keep`, and at least those of the last turn. Thinking after the first change
/// is taken out: the Messages API binds it to the conversation before it and refuses it when that has changed.
pub(super) fn clear_results(messages: &mut Vec<Message>, keep: usize) -> bool {
    let results = |message: &Message| message.content.iter().filter(|b| b.as_tool_result().is_some()).count();
    let all: usize = messages.iter().map(results).sum();
    let newest = messages.last().map_or(0, results);
    let mut old = all.saturating_sub(keep.max(newest));
    let mut first_change = None;
    for (n, message) in messages.iter_mut().enumerate() {
        for block in &mut message.content {
            let Some(result) = block.as_tool_result() else { continue };
            if old == 0 {
                break;
            }
            old -= 1;
            if result.text != CLEARED {
                *block = Block::tool_result(result.id, CLEARED, result.is_error);
                first_change.get_or_insert(n);
            }
        }
    }
    let Some(first_change) = first_change else { return false };
    for message in messages.iter_mut().skip(first_change).filter(|message| message.role == Role::Assistant) {
        message.content.retain(|block| !matches!(block.kind(), "thinking" | "redacted_thinking"));
    }
    messages.retain(|message| !message.content.is_empty());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn turn(n: usize) -> [Message; 2] {
        let thinking = format!(r#"{{"type":"thinking","thinking":"","signature":"s{n}"}}"#);
        let content = vec![
            Block::from_raw(RawValue::from_string(thinking).unwrap()).unwrap(),
            Block::tool_use(&format!("t{n}"), "search", RawValue::NULL),
        ];
        let result = Block::tool_result(&format!("t{n}"), &format!("result {n}"), false);
        [Message { role: Role::Assistant, content }, Message { role: Role::User, content: vec![result] }]
    }

    proptest! {
        #[test]
        fn clearing_keeps_every_call_answered_and_no_thinking_after_a_change(turns in 1_usize..12, keep in 0_usize..12) {
            let mut messages = vec![Message::user("task")];
            messages.extend((0..turns).flat_map(turn));
            let before = messages.clone();
            let changed = clear_results(&mut messages, keep);
            prop_assert_eq!(changed, turns > keep.max(1));
            prop_assert_eq!(messages.len(), before.len());
            let texts: Vec<_> = messages.iter().flat_map(|m| &m.content).filter_map(Block::as_tool_result).map(|r| r.text).collect();
            let kept = texts.iter().filter(|text| **text != CLEARED).count();
            prop_assert_eq!(kept, turns.min(keep.max(1)));
            prop_assert!(texts.last().is_some_and(|text| *text != CLEARED), "the newest result is always kept");
            let first = messages.iter().zip(&before).position(|(a, b)| a != b);
            let thinking = messages.iter().rposition(|m| m.content.iter().any(|b| b.kind() == "thinking"));
            prop_assert!(first.is_none() || thinking < first, "thinking only before the first change");
            prop_assert!(!clear_results(&mut messages, keep), "clearing again changes nothing");
        }
    }
}
