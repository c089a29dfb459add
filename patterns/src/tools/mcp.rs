//! The tools of an MCP server.

use std::error::Error as StdError;
use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation, ProtocolVersion,
    ResourceContents,
};
use rmcp::service::{ClientInitializeError, RunningService, ServiceExt};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};

use super::{Tool, tool};
use crate::error::{Error, ErrorKind, Result, excerpt};

/// How long a server may take to start and to list its tools.
const START: Duration = Duration::from_secs(30);
/// How long one call may take, unless [`Tool::timeout`] says otherwise.
const CALL: Duration = Duration::from_secs(60);
/// What a started server sees of the environment: what it needs to run, no key of anybody's.
const ENVIRONMENT: [&str; 14] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "APPDATA",
    "LOCALAPPDATA",
    "SYSTEMROOT",
    "TEMP",
    "USERPROFILE",
];

/// A connection to a server of the [Model Context Protocol](https://modelcontextprotocol.io), over stdio or streamable
/// HTTP, in the versions up to 2025-11-25 (those with an `initialize` handshake).
///
/// It lasts as long as it or one of its tools does; then a server that was started is ended. It needs a tokio runtime.
///
/// ```no_run
/// # async fn run() -> patterns::Result<()> {
/// use patterns::{Mcp, agent};
///
/// let files = Mcp::connect("npx -y @modelcontextprotocol/server-filesystem /srv/docs").await?;
/// let clerk = agent("Answer from the documents.").with_all(files.tools());
/// # let _ = clerk; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Mcp {
    name: Arc<str>,
    service: Arc<RunningService<RoleClient, ClientConfig>>,
    tools: Arc<[rmcp::model::Tool]>,
}

impl Mcp {
    /// Connects to a server: an `http://` or `https://` address, or else a command line that starts one, split as a shell
    /// does (nothing is expanded). A started server sees little of the environment; give it more with
    /// `env TOKEN=.. command`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a command that cannot be started, [`ErrorKind::Connection`], [`ErrorKind::Protocol`] or
    /// [`ErrorKind::TimedOut`] (30 seconds) when the server does not answer as it should.
    pub async fn connect(server: &str) -> Result<Self> {
        let said = Arc::default();
        match tokio::time::timeout(START, Self::start(server, &said)).await {
            Ok(connected) => connected,
            Err(_) => {
                let message = format!(
                    "the MCP server `{}` gave no answer within {} s",
                    name_of(server),
                    START.as_secs()
                );
                Err(Error::new(ErrorKind::TimedOut, with_stderr(message, &said)))
            }
        }
    }

    async fn start(server: &str, said: &Arc<Mutex<String>>) -> Result<Self> {
        let name = name_of(server);
        let mut client = ClientConfig::default();
        client.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        client.client_info = Implementation::new("patterns", env!("CARGO_PKG_VERSION"));
        let failed = |error: ClientInitializeError| {
            let (kind, reason) = match &error {
                ClientInitializeError::TransportError { error, .. } => (ErrorKind::Connection, reason(error)),
                ClientInitializeError::ConnectionClosed(_) => (ErrorKind::Connection, reason(&error)),
                _ => (ErrorKind::Protocol, reason(&error)),
            };
            let message = format!("the MCP server `{name}` cannot be used: {reason}");
            Error::new(kind, with_stderr(message, said))
        };
        let service = if is_address(server) {
            let config = StreamableHttpClientTransportConfig::with_uri(server);
            let http = crate::providers::http_client(server.starts_with("https"))?;
            let transport = StreamableHttpClientTransport::with_client(http, config);
            client.serve(transport).await.map_err(failed)?
        } else {
            let (process, stderr) = spawn(server)?;
            if let Some(stderr) = stderr {
                tokio::spawn(keep(stderr, Arc::clone(said)));
            }
            client.serve(process).await.map_err(failed)?
        };
        let tools = service.list_all_tools().await.map_err(|error| {
            let message = format!("the MCP server `{name}` does not list its tools: {}", reason(&error));
            Error::new(ErrorKind::Protocol, with_stderr(message, said))
        })?;
        Ok(Self { name: name.into(), service: Arc::new(service), tools: tools.into() })
    }

    /// The server's tools. Those that it does not mark as only reading have [effects](Tool::with_effects); the mark is the
    /// server's own word. Names that the model's API does not take are spelled with `_`.
    pub fn tools(&self) -> Vec<Tool<'static>> {
        self.tools.iter().map(|tool| self.tool(tool)).collect()
    }

    fn tool(&self, listed: &rmcp::model::Tool) -> Tool<'static> {
        let (service, asked) = (Arc::clone(&self.service), listed.name.clone());
        let name: String = listed
            .name
            .chars()
            .take(64)
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        let description = excerpt_of(listed.description.as_deref().unwrap_or_default());
        let reads_only = listed.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
        let tool = tool(name, description, move |args: Value| {
            let (service, asked) = (Arc::clone(&service), asked.clone());
            async move { call(&service, asked, args).await }
        })
        .schema(Value::Object((*listed.input_schema).clone()))
        .timeout(CALL);
        if reads_only { tool } else { tool.with_effects() }
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &*tool.name).collect();
        f.debug_struct("Mcp").field("server", &self.name).field("tools", &tools).finish()
    }
}

async fn call(
    server: &Peer<RoleClient>,
    name: std::borrow::Cow<'static, str>,
    args: Value,
) -> Result<String, String> {
    let mut params = CallToolRequestParams::new(name);
    if let Value::Object(args) = args {
        params = params.with_arguments(args);
    }
    let result = server
        .call_tool(params)
        .await
        .map_err(|error| format!("the MCP server failed: {}", reason(&error)))?;
    let text = text_of(&result);
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

/// A result in words: its texts, and for what is no text a line that says so.
fn text_of(result: &CallToolResult) -> String {
    let parts: Vec<String> = result
        .content
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => text.text.clone(),
            ContentBlock::Image(image) => format!("[an image, {}, not shown]", image.mime_type),
            ContentBlock::Audio(audio) => format!("[a recording, {}, not played]", audio.mime_type),
            ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => text.clone(),
                _ => "[a file that is no text, not shown]".to_owned(),
            },
            _ => "[content of an unknown kind, not shown]".to_owned(),
        })
        .collect();
    match &result.structured_content {
        Some(structured) if parts.is_empty() => structured.to_string(),
        _ => parts.join("\n"),
    }
}

fn is_address(server: &str) -> bool {
    server.starts_with("http://") || server.starts_with("https://")
}

/// What a server is called in messages: the command alone, or the host alone. The rest may hold a token.
fn name_of(server: &str) -> String {
    let name = match server.split_once("://") {
        Some((_, rest)) if is_address(server) => {
            rest.split(['/', '?']).next().and_then(|host| host.rsplit('@').next())
        }
        _ => server.split_whitespace().find(|word| !word.contains('=') && *word != "env"),
    };
    name.unwrap_or("?").to_owned()
}

/// What went wrong, without the names of our transport, and without the address: it may hold a token.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(inner) = match last.downcast_ref() {
        Some(StreamableHttpError::<reqwest::Error>::Client(error)) => {
            Some(error as &(dyn StdError + 'static))
        }
        _ => last.source(),
    } {
        last = inner;
    }
    let text = last.to_string();
    match text.split_once(" for url (") {
        Some((before, after)) => format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest)),
        None => text,
    }
}

fn spawn(command_line: &str) -> Result<(TokioChildProcess, Option<ChildStderr>)> {
    let words = shlex::split(command_line).unwrap_or_default();
    let Some((program, args)) = words.split_first() else {
        let message = "the command of an MCP server is empty or has a quote that is not closed";
        return Err(Error::new(ErrorKind::Config, message));
    };
    let mut command = Command::new(program);
    command.args(args).env_clear();
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn().map_err(|error| {
        let message = format!("the MCP server `{program}` cannot be started: {error}");
        Error::new(ErrorKind::Config, message).with_source(error)
    })
}

/// Keeps the beginning of what a server says on its standard error, and reads the rest, so that it does not block.
async fn keep(mut stderr: ChildStderr, said: Arc<Mutex<String>>) {
    let mut piece = [0; 4_096];
    while let Ok(n @ 1..) = stderr.read(&mut piece).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < 2_000 {
            said.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
    }
}

fn with_stderr(message: String, said: &Mutex<String>) -> String {
    let said = excerpt(&said.lock().unwrap_or_else(PoisonError::into_inner), 400);
    if said.is_empty() { message } else { format!("{message}; it says: {said}") }
}

/// A server's description of a tool goes into every request.
fn excerpt_of(description: &str) -> String {
    description.chars().take(4_000).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_is_named_without_what_may_be_a_token() {
        for (server, name) in [
            ("https://user:pw@mcp.example.com/x?token=s", "mcp.example.com"),
            ("env TOKEN=s npx -y server --key s", "npx"),
            ("server", "server"),
            ("", "?"),
        ] {
            assert_eq!(name_of(server), name);
        }
    }

    /// A server of one tool that answers `first` requests and then hangs up.
    async fn server(first: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = [
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}"#,
            "",
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}"#,
        ];
        tokio::spawn(async move {
            let mut answers = answers.into_iter().take(first);
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut heard = [0; 8_192];
                if !stream.read(&mut heard).await.is_ok_and(|n| heard[..n].starts_with(b"POST")) {
                    continue;
                }
                let Some(answer) = answers.next() else { continue };
                let status = if answer.is_empty() { "202 Accepted" } else { "200 OK" };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    answer.len()
                );
                stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}/mcp?token=open-sesame")
    }

    #[tokio::test]
    async fn whatever_fails_says_why_and_shows_no_address_with_its_token() {
        let nobody = "http://127.0.0.1:1/mcp?token=open-sesame".to_owned();
        for server in [nobody, server(0).await, server(2).await] {
            let error = Mcp::connect(&server).await.unwrap_err();
            let mut shown = format!("{error} {error:?} {error:#?}");
            let mut source = StdError::source(&error);
            while let Some(cause) = source {
                shown += &format!("{cause} {cause:?}");
                source = cause.source();
            }
            assert!(!shown.contains("sesame") && !shown.contains("rmcp::"), "{shown}");
            assert!(error.message().starts_with("the MCP server `127.0.0.1:"), "{error}");
        }
        let files = Mcp::connect(&server(3).await).await.unwrap();
        let llm = async |_: crate::Request| Ok(crate::Reply::default());
        let failed = files.tools()[0].call(&llm, serde_json::json!({})).await.unwrap_err();
        assert!(failed.starts_with("the MCP server failed: "), "{failed}");
        assert!(!failed.contains("sesame") && !failed.contains("rmcp::"), "{failed}");
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_started_is_named() {
        for (server, message) in [
            ("", "the command of an MCP server is empty or has a quote that is not closed"),
            ("'x", "the command of an MCP server is empty or has a quote that is not closed"),
            ("/no/such/server --flag", "the MCP server `/no/such/server` cannot be started"),
        ] {
            let error = Mcp::connect(server).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().starts_with(message), "{error}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_server_that_gives_up_is_quoted_and_sees_no_key() {
        let error =
            Mcp::connect("sh -c 'echo no token: $PATTERNS_TEST_API_KEY >&2; exit 1'").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection);
        assert!(error.message().starts_with("the MCP server `sh` cannot be used"), "{error}");
    }
}
