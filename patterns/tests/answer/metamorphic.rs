//! A change that does not touch the answer does not change the reading.

use serde_json::Value;

use crate::cases;
use crate::cases::Case;

/// Replies whose answer stands in a tag, whole, and is found at first sight: everything else may
/// rightly read otherwise once more text stands round it.
fn steady() -> Vec<Case> {
    const FRAGILE: [&str; 5] = ["truncated", "missing-open", "html-escaped", "missing-close", "deep-long"];
    let mut cases = cases::all();
    cases.retain(|case| {
        let read = !case.expected.is_null() && case.expected.get("error").is_none();
        let tagged = case.reply().to_lowercase().contains("</");
        read && tagged && !case.debatable && !FRAGILE.contains(&case.kind.as_str())
    });
    cases
}

fn unchanged(what: &str, change: impl Fn(&Case, &str) -> Option<String>) {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for case in steady() {
        let reply = case.reply();
        if let Some(changed) = change(&case, &reply) {
            tried += 1;
            let read = case.read(&changed);
            if read != case.expected {
                wrong.push(format!("  {} ({}): expected {}, read {read}", case.id, case.op, case.expected));
            }
        }
    }
    println!("{what}: {tried} replies");
    assert!(tried > 150, "only {tried} replies tried");
    assert!(wrong.is_empty(), "{what} changes the reading:\n{}", wrong.join("\n"));
}

#[test]
fn chatter_before_changes_nothing() {
    unchanged("chatter before", |_, reply| {
        Some(format!("Sure, I'd be happy to help! Here it is:\n\n{reply}"))
    });
}

#[test]
fn chatter_after_changes_nothing() {
    unchanged("chatter after", |_, reply| {
        Some(format!("{reply}\n\nLet me know if I should go on; it's no trouble."))
    });
}

#[test]
fn blank_lines_change_nothing() {
    unchanged("blank lines", |_, reply| Some(format!("\n \n\r\n{reply}\n\n\t\n")));
}

#[test]
fn a_fence_round_the_reply_changes_nothing() {
    unchanged("a fence", |_, reply| {
        // a reply with code of its own would close the fence early
        (!reply.contains("```") && !reply.contains("~~~") && !reply.contains('`'))
            .then(|| format!("```xml\n{reply}\n```"))
    });
}

#[test]
fn a_draft_in_thinking_before_changes_nothing() {
    unchanged("a thinking draft", |case, reply| {
        let draft = match case.op.as_str() {
            "tag" | "stream" | "tags" => format!("<{0}>a draft</{0}>", case.tag),
            "label" => format!("<label>{}</label>", case.allowed[0]),
            "verdict" => format!("<evaluation>{}</evaluation>", case.allowed[0]),
            _ => "<gate>FAIL</gate>".to_owned(),
        };
        // a lone close tag in the reply would mean that all before it is thinking
        let own =
            ["think", "thought", "reason", "scratch"].iter().any(|name| reply.to_lowercase().contains(name));
        (!own && !case.tag.contains("think")).then(|| format!("<think>\nMaybe {draft}?\n</think>\n{reply}"))
    });
}

#[test]
fn the_reply_given_twice_changes_nothing() {
    let mut tried = 0;
    for case in steady() {
        let reply = case.reply();
        if case.kind == "thinking" {
            continue;
        }
        tried += 1;
        let expected = match &case.expected {
            Value::Array(list) => list.iter().chain(list).cloned().collect(),
            other => other.clone(),
        };
        let read = case.read(&format!("{reply}\n\n{reply}"));
        assert_eq!(read, expected, "{} given twice", case.id);
    }
    println!("given twice: {tried} replies");
    assert!(tried > 150, "only {tried} replies tried");
}
