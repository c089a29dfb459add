//! One request over HTTP: what the providers share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use reqwest::header::{
    ACCEPT, AsHeaderName, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::Failure;
use super::secret::Secret;
use crate::error::{Error, ErrorKind, Result};
use crate::time::after;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest body of a reply. The largest models write a few hundred kilobytes.
const MOST_BYTES: usize = 64 << 20;

/// How long one call may take.
///
/// A silence and the whole are bounded apart: a server that drips a byte now and then is caught by the second, one that
/// hangs in the middle of a stream by the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest silence of a stream, or in the middle of a body. 5 minutes, because a local server says nothing while
    /// it reads a long prompt.
    pub idle: Duration,
    /// The longest call that is not streamed. 10 minutes, what the official SDKs allow.
    pub total: Duration,
    /// The longest streamed call. 60 minutes, which is what 128,000 tokens take.
    pub streamed: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            total: Duration::from_secs(600),
            streamed: Duration::from_secs(3_600),
        }
    }
}

/// An address to post to. The client is built by the first call and shared by all.
#[derive(Clone)]
pub(crate) struct Endpoint {
    client: Arc<OnceLock<Client>>,
    url: Url,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    timeouts: Timeouts,
}

impl Endpoint {
    /// The address `path` under `base`.
    pub(crate) fn new(base: &str, path: &str, headers: Headers, timeouts: Timeouts) -> Result<Self> {
        let wrong = |why: &str| {
            let message =
                format!("the base URL is not usable: {why}; it looks like https://api.anthropic.com");
            Error::new(ErrorKind::Config, message)
        };
        let url = Url::parse(&format!("{}{path}", base.trim_end_matches('/')))
            .map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it holds a user's name or password, which belong into a header"));
        }
        let Headers { map: headers, secrets } = headers;
        Ok(Self { client: Arc::default(), url, headers, secrets, timeouts })
    }

    /// The host, for messages. The rest of a URL may hold a secret.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or("the service")
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = client(self.url.scheme() == "https")?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Posts `body` once. Everything but a 2xx is an error.
    pub(crate) async fn post(
        &self,
        body: Vec<u8>,
        streamed: bool,
        betas: Option<&str>,
    ) -> Result<Answer<'_>> {
        let client = self.client()?;
        let mut request = reqwest::Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        if let Some(betas) = betas {
            let value = HeaderValue::from_str(betas).map_err(|_| {
                Error::new(ErrorKind::InvalidRequest, "`betas` holds a character that no header may have")
            })?;
            request.headers_mut().append(HeaderName::from_static("anthropic-beta"), value);
        }
        *request.body_mut() = Some(body.into());
        let total = if streamed { self.timeouts.streamed } else { self.timeouts.total };
        let end = after(total);
        // a reply that is not streamed comes as a whole, after the silence in which it is written
        let first = if streamed { end.min(after(self.timeouts.idle)) } else { end };
        let response = match timeout_at(first, client.execute(request)).await {
            Ok(sent) => sent.map_err(|error| self.broken(error))?,
            Err(_) => return Err(self.too_slow(streamed && first < end)),
        };
        let answer = Answer { endpoint: self, end, response };
        if answer.response.status().is_success() { Ok(answer) } else { Err(answer.refused().await) }
    }

    fn broken(&self, error: reqwest::Error) -> Error {
        let (connect, timeout) = (error.is_connect(), error.is_timeout());
        let error = error.without_url();
        let mut root: &dyn std::error::Error = &error;
        while let Some(source) = root.source() {
            root = source;
        }
        let host = self.host();
        match (connect, timeout) {
            (true, true) => Error::new(
                ErrorKind::TimedOut,
                format!("{host} cannot be reached within {CONNECT:?}; check the address, the network and the proxy"),
            ),
            (true, false) => Error::new(
                ErrorKind::Connection,
                format!("no connection to {host}: {root}; check the address, the network and the proxy"),
            ),
            _ => Error::new(ErrorKind::Connection, format!("the connection to {host} broke: {root}")),
        }
        .with_source(error)
    }

    fn too_slow(&self, idle: bool) -> Error {
        let host = self.host();
        let message = if idle {
            format!("{host} was silent for {:?}", self.timeouts.idle)
        } else {
            format!("{host} did not finish its reply in time")
        };
        Error::new(ErrorKind::TimedOut, message)
    }

    /// `text` without any of the secrets.
    fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.scrub(&text).into_owned())
    }
}

/// A response under way.
pub(crate) struct Answer<'e> {
    endpoint: &'e Endpoint,
    end: Instant,
    response: Response,
}

impl Answer<'_> {
    /// Whether it is a stream of server-sent events, which a server may or may not have made of it.
    pub(crate) fn is_event_stream(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The next bytes of the body, within the time allowed.
    pub(crate) async fn chunk(&mut self) -> Result<Option<bytes::Bytes>> {
        let idle = after(self.endpoint.timeouts.idle);
        match timeout_at(idle.min(self.end), self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| self.endpoint.broken(error)),
            Err(_) => Err(self.endpoint.too_slow(idle < self.end)),
        }
    }

    /// The whole body.
    pub(crate) async fn body(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(self.malformed("a body of more than 64 MB", &[]));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Takes the end of a finished stream, which is on its way or not worth waiting for, so that the connection can be
    /// used again.
    pub(crate) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _ = timeout(Duration::from_millis(20), rest).await;
    }

    /// The error for a 2xx response that is not what the API promises.
    pub(crate) fn malformed(&self, what: &str, body: &[u8]) -> Error {
        let host = self.endpoint.host();
        let message = format!(
            "{host} answered with {what} where a reply of the API was expected; check the base URL and what stands between"
        );
        self.describe(Error::new(ErrorKind::Protocol, message), body)
    }

    /// The error for a body that was to be JSON.
    pub(crate) fn not_json(&self, body: &[u8], error: serde_json::Error) -> Error {
        let what = match body.trim_ascii_start() {
            [] => "an empty body",
            [b'<', ..] => "HTML",
            _ => "broken JSON",
        };
        self.malformed(what, body).with_source(error)
    }

    /// The error for a failure that came as, or in the middle of, a 2xx response.
    pub(crate) fn failed(&self, body: &[u8]) -> Error {
        self.describe(self.failure(body).into_error(None, self.endpoint.host()), body)
    }

    /// What the service says, should it have echoed a secret without it.
    fn failure(&self, body: &[u8]) -> Failure {
        let failure = Failure::read(body);
        Failure { message: failure.message.map(|message| self.endpoint.scrub(&message)), ..failure }
    }

    /// Adds the request's id and an excerpt of the body.
    fn describe(&self, mut error: Error, body: &[u8]) -> Error {
        if error.request_id().is_none()
            && let Some(id) = ["request-id", "x-request-id"].iter().find_map(|name| self.header(*name))
        {
            error = error.with_request_id(id);
        }
        if body.is_empty() {
            error
        } else {
            error.with_body(&self.endpoint.scrub(&String::from_utf8_lossy(body)))
        }
    }

    async fn refused(mut self) -> Error {
        let status = self.response.status();
        let body = self.body().await.unwrap_or_default();
        let mut error = if status.is_redirection() {
            self.redirected(status)
        } else {
            self.failure(&body).into_error(Some(status.as_u16()), self.endpoint.host())
        };
        if let Some(wait) = retry_after(self.response.headers()) {
            error = error.with_retry_after(wait);
        }
        // a spend cap stays one whatever the header says
        let capped = error.kind() == ErrorKind::RateLimited && !error.is_transient();
        match self.header("x-should-retry") {
            Some("true") if !capped => error = error.with_transient(true),
            Some("false") => error = error.with_transient(false),
            _ => {}
        }
        self.describe(error, &body)
    }

    fn redirected(&self, status: StatusCode) -> Error {
        let target = self.header(LOCATION).and_then(|to| self.endpoint.url.join(to).ok());
        let target = target.as_ref().and_then(Url::host_str).unwrap_or("nowhere");
        let message = format!(
            "{} redirects to {target}, which is not followed, so that the key goes nowhere else; set the base URL to where the service is",
            self.endpoint.host()
        );
        Error::new(ErrorKind::Protocol, message).with_status(status.as_u16())
    }

    pub(crate) fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }
}

/// Reads JSON. As text it is checked for UTF-8 once, as bytes once for each of its strings.
pub(super) fn from_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body), // which tells what is wrong
    }
}

/// What the service asks to wait: milliseconds, seconds (also in fractions), or an HTTP date. Nothing when it asks for
/// none or for the past.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number(RETRY_AFTER.as_str()));
    let wait = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        None => {
            let date = headers.get(RETRY_AFTER)?.to_str().ok()?;
            httpdate::parse_http_date(date).ok()?.duration_since(SystemTime::now()).ok()?
        }
    };
    (!wait.is_zero()).then_some(wait)
}

/// A client that follows no redirect: a key never goes to another address than the one that was named.
pub(crate) fn client(https: bool) -> Result<Client> {
    Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT)
        .tls_backend_preconfigured(tls(https)?)
        .build()
        .map_err(|error| unusable_tls(&error))
}

/// TLS with the certificates of the operating system, and none of its work for a plain connection.
pub(crate) fn tls(needed: bool) -> Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable_tls(&error))?;
    if !needed {
        return Ok(config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(|error| unusable_tls(&error))?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn unusable_tls(error: &dyn std::fmt::Display) -> Error {
    let message =
        format!("no secure connection can be set up: {error}; install the system's CA certificates");
    Error::new(ErrorKind::Config, message)
}

/// The headers of every call, and what of them must not be shown.
pub(super) struct Headers {
    map: HeaderMap,
    secrets: Vec<Secret>,
}

impl Headers {
    pub(super) fn new() -> Self {
        let json = HeaderValue::from_static("application/json");
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, json.clone());
        map.insert(ACCEPT, json);
        map.insert(USER_AGENT, HeaderValue::from_static(concat!("patterns/", env!("CARGO_PKG_VERSION"))));
        Self { map, secrets: Vec::new() }
    }

    /// Adds a header, in place of one of the same name. The value is not shown.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |what: String| Error::new(ErrorKind::Config, what);
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong(format!("`{name}` cannot be the name of a header")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| wrong(format!("the value of `{name}` holds a character that no header may have")))?;
        value.set_sensitive(true);
        self.map.insert(key, value);
        Ok(())
    }

    /// Adds a header whose value is a secret.
    pub(super) fn secret(&mut self, name: &str, prefix: &str, secret: Secret) -> Result<()> {
        self.set(name, &format!("{prefix}{}", secret.expose()))?;
        self.secrets.push(secret);
        Ok(())
    }

    /// Adds the caller's own headers, any of which may hold a secret.
    pub(super) fn own(&mut self, headers: Vec<(String, Secret)>) -> Result<()> {
        for (name, value) in headers {
            self.set(&name, value.expose())?;
            let bare = value.expose().strip_prefix("Bearer ").unwrap_or(value.expose());
            // what is shorter is no key, and would be found in every text
            if bare.len() >= 12 {
                self.secrets.push(Secret::new(bare));
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.map.get(name)?.to_str().ok()
    }
}
