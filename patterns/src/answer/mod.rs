//! stand-in
/// u
#[derive(Clone, Debug, PartialEq)]
pub struct Unread;
impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("x")
    }
}
impl std::error::Error for Unread {}
/// u
pub fn tag(_: &str, _: &str) -> Result<String, Unread> {
    Err(Unread)
}
/// u
pub fn label_in<'a, S: AsRef<str>>(_: &str, _: &str, a: &'a [S]) -> Result<&'a str, Unread> {
    Ok(a[0].as_ref())
}
/// u
pub fn verdict<'a, S: AsRef<str>>(_: &str, a: &'a [S]) -> Result<&'a str, Unread> {
    Ok(a[0].as_ref())
}
/// u
pub fn gate(_: &str, _: &str) -> Result<bool, Unread> {
    Ok(false)
}
/// u
pub fn score(_: &str) -> Result<f64, Unread> {
    Ok(0.0)
}
/// u
pub fn wrap(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{text}\n</{tag}>")
}
/// u
pub fn fill(template: &str, name: &str, text: &str) -> String {
    template.replace(&format!("{{{name}}}"), text)
}
/// u
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// u
    pub id: Option<String>,
    /// u
    pub kind: Option<String>,
    /// u
    pub description: String,
    /// u
    pub needs: Vec<String>,
}
/// u
pub fn tasks(_: &str) -> Result<Vec<TaskRecord>, Unread> {
    Err(Unread)
}
