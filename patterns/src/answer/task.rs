use std::ops::Range;

use quick_xml::events::BytesStart;

use super::chars::blank;
use super::chars::trim;
use super::content::content;
use super::element::Element;
use super::element::find;
use super::element::find_fields;
use super::lex::Lexer;
use super::lex::Piece;
use super::lex::Rules;
use super::tag::element;
use super::tag::truncated;
use super::unread::Unread;
use super::unread::UnreadKind;

/// One task of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// The name that other tasks refer to it by.
    pub id: Option<String>,
    /// What sort of task it is: the content of `<type>`.
    pub kind: Option<String>,
    /// What is to be done; never blank.
    pub description: String,
    /// The ids of the tasks that must be done before, in the order given.
    pub needs: Vec<String>,
}

/// Reads the tasks of a plan.
///
/// A task is a `<task>` element with the fields `id`, `type`, `description` and `needs` as elements
/// or as attributes. Text outside the fields is the description where that element is missing.
/// `needs` lists ids, separated by commas or spaces, and may be repeated. Whether ids are unique and
/// known is for the planner to check.
///
/// Each record is read on its own, so that a field that one task lacks never shifts those of the
/// others. An explicit empty plan, `<tasks></tasks>`, is an empty list.
///
/// # Errors
///
/// - [`Missing`](UnreadKind::Missing): no task, or a task without a description.
/// - [`Truncated`](UnreadKind::Truncated): the reply ends inside a task, or `<tasks>` is not closed.
/// - [`Ambiguous`](UnreadKind::Ambiguous): a task that gives one field twice, differently.
///
/// ```
/// use patterns::answer::tasks;
///
/// let plan = r#"<tasks>
///   <task id="a"><type>formal</type><description>Write it stiffly.</description></task>
///   <task id="b"><description>Compare x < y.</description><needs>a</needs></task>
/// </tasks>"#;
/// let tasks = tasks(plan).unwrap();
/// assert_eq!(tasks[0].kind.as_deref(), Some("formal"));
/// assert_eq!(tasks[1].description, "Compare x < y.");
/// assert_eq!(tasks[1].needs, ["a"]);
/// ```
pub fn tasks(text: &str) -> Result<Vec<TaskRecord>, Unread> {
    let found = find(text, "task");
    if let Some(open) = found.cut {
        return Err(truncated(&found.text[open.start..], "task"));
    }
    let plan = find(text, "tasks");
    if let Some(open) = plan.cut {
        return Err(truncated(&plan.text[open.start..], "tasks"));
    }
    if found.ends_in_open_tag("task") {
        return Err(truncated(text, "task"));
    }
    if found.elements.is_empty() {
        let explicit = |element: &Element| blank(&plan.text[element.inner()]);
        let empty = !plan.elements.is_empty() && plan.elements.iter().all(explicit);
        return if empty { Ok(Vec::new()) } else { Err(missing(element("task"), text)) };
    }
    let records = found.elements.iter().enumerate();
    records
        .map(|(i, task)| record(&found.text, task).map_err(|error| error.within(format!("task {}", i + 1))))
        .collect()
}

fn missing(wanted: String, seen: &str) -> Unread {
    Unread::new(UnreadKind::Missing, wanted, [seen])
}

const ID: usize = 0;
const TYPE: usize = 1;
const DESCRIPTION: usize = 2;
const NEEDS: usize = 3;
const FIELDS: [&str; 4] = ["id", "type", "description", "needs"];

fn record(text: &str, task: &Element) -> Result<TaskRecord, Unread> {
    let inner = &text[task.inner()];
    let mut given: [Vec<String>; 4] = Default::default();
    for (name, value) in attributes(&text[task.open()]) {
        if let Some(field) = FIELDS.iter().position(|field| name.eq_ignore_ascii_case(field)) {
            given[field].push(value);
        }
    }
    let fields = find_fields(inner, &FIELDS);
    for (field, element) in &fields {
        let raw = &inner[element.inner()];
        given[*field].push(if *field == NEEDS { without_tags(raw) } else { content(raw) });
    }
    if given[DESCRIPTION].is_empty() {
        given[DESCRIPTION]
            .push(content(&outside(inner, fields.iter().map(|(_, element)| element.start..element.end))));
    }
    let one = |field: usize| -> Result<Option<String>, Unread> {
        let mut values: Vec<&String> = given[field].iter().filter(|value| !blank(value)).collect();
        values.dedup();
        match values[..] {
            [] => Ok(None),
            [value] => Ok(Some(value.clone())),
            _ => Err(Unread::new(UnreadKind::Ambiguous, element(FIELDS[field]), values)),
        }
    };
    Ok(TaskRecord {
        id: one(ID)?,
        kind: one(TYPE)?,
        description: one(DESCRIPTION)?.ok_or_else(|| missing(element(FIELDS[DESCRIPTION]), inner))?,
        needs: given[NEEDS].iter().flat_map(|list| ids(list)).collect(),
    })
}

/// What stands outside the fields.
fn outside(text: &str, fields: impl Iterator<Item = Range<usize>>) -> String {
    let mut rest = String::new();
    let mut at = 0;
    for field in fields {
        rest.push_str(&text[at..field.start]);
        at = field.end;
    }
    rest.push_str(&text[at..]);
    rest
}

fn without_tags(text: &str) -> String {
    let tags = Lexer::new(text, Rules::default()).filter_map(|piece| match piece {
        Piece::Tag(tag) => Some(tag.start..tag.end),
        Piece::Comment(_) | Piece::Cdata(_) | Piece::Code(_) => None,
    });
    let mut plain = String::new();
    let mut at = 0;
    for tag in tags {
        plain.push_str(&text[at..tag.start]);
        plain.push(',');
        at = tag.end;
    }
    plain.push_str(&text[at..]);
    content(&plain)
}

/// `a, b and c`, `a b c`, `[1, 2]`, `none`.
fn ids(list: &str) -> impl Iterator<Item = String> {
    let by_comma = list.contains([',', ';', '\n']);
    let list = if by_comma { list.replace(" and ", ",") } else { list.replace(" and ", " ") };
    let separates = move |c: char| if by_comma { matches!(c, ',' | ';' | '\n') } else { c.is_whitespace() };
    let ids: Vec<String> = list
        .split(separates)
        .map(|id| trim(id).trim_matches(['[', ']', '"', '\'', '`', '#']))
        .map(|id| id.strip_prefix("- ").unwrap_or(id))
        .filter(|id| {
            !matches!(id.to_ascii_lowercase().as_str(), "" | "none" | "n/a" | "null" | "-" | "nothing")
        })
        .map(str::to_owned)
        .collect();
    ids.into_iter()
}

/// The attributes of an open tag; those that cannot be read are left out.
fn attributes(open: &str) -> Vec<(String, String)> {
    let inside = open.trim_start_matches(['<', '＜']).trim_end_matches(['>', '/', '＞', '／']).trim();
    let name = inside.find(char::is_whitespace).unwrap_or(inside.len());
    let tag = BytesStart::from_content(inside, name);
    let mut attributes = tag.html_attributes();
    let attributes = attributes.with_checks(false).flatten();
    attributes.map(|attribute| (attribute.key.0.to_owned(), content(&attribute.value))).collect()
}
