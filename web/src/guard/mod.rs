//! Authentication of requests. The checks and their order are specified in docs/specs/web.md.

mod owner;

use std::fmt::Write;
use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

pub(crate) use owner::owner;

/// Length of a token in bytes, before hexadecimal encoding.
const TOKEN_BYTES: usize = 16;

/// Secret that a request must present.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Generates a random token.
    pub(crate) fn new() -> std::io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            let random = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
            filled += random?;
        }
        Ok(Token(bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares with a given token, in time independent of the position of differences.
    pub(crate) fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differing = own.iter().zip(shown.iter().chain(std::iter::repeat(&0)));
        let difference = differing.fold(0, |all, (own, shown)| std::hint::black_box(all | (own ^ shown)));
        difference == 0 && own.len() == shown.len()
    }
}

/// Omits the secret.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Remote end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// User id; `None` if the kernel does not tell.
    pub(crate) user: Option<u32>,
}

/// Parameters that requests are checked against.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Token,
    port: u16,
    /// User id of this process.
    user: u32,
    steer: bool,
}

/// Reason for rejecting a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Sent from another computer or by another user.
    Stranger,
    /// The `Host` header has another name.
    OtherHost,
    /// Sent on behalf of another site, or of an unknown one.
    OtherOrigin,
    /// No valid token was presented.
    NoToken,
    /// It would change something, but the server was not started to steer.
    ReadOnly,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Refusal::Stranger | Refusal::OtherOrigin | Refusal::ReadOnly => StatusCode::FORBIDDEN,
            Refusal::OtherHost => StatusCode::MISDIRECTED_REQUEST,
            Refusal::NoToken => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the message for the client.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Stranger => {
                "only processes of the user who started `tombolo web`, on the same computer, are answered"
            }
            Refusal::OtherHost => {
                "ask for 127.0.0.1, [::1] or localhost, with the port that `tombolo web` printed"
            }
            Refusal::OtherOrigin => {
                "this was asked for by a page of another site, or by one that does not say which"
            }
            Refusal::NoToken => {
                "open the link that `tombolo web` printed where it was started; the token in it changes with each start"
            }
            Refusal::ReadOnly => "this page only looks: start `tombolo web --steer` to change anything",
        }
    }
}

/// Verdict on a request that passed all checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The request may be handled.
    Granted,
    /// The URL contains the token, which is exchanged for a cookie.
    Login,
}

impl Guard {
    pub(crate) fn new(token: Token, port: u16, steer: bool) -> Guard {
        Guard { token, port, user: rustix::process::getuid().as_raw(), steer }
    }

    pub(crate) fn steers(&self) -> bool {
        self.steer
    }

    /// Returns the value of the `Set-Cookie` header.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.token.as_str())
    }

    fn cookie_name(&self) -> String {
        format!("tombolo-{}", self.port)
    }

    /// Checks a request.
    pub(crate) fn admit(
        &self,
        peer: Peer,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Admission, Refusal> {
        let known = peer.user.is_some_and(|user| user == self.user || user == 0);
        if !peer.address.ip().to_canonical().is_loopback() || !known {
            return Err(Refusal::Stranger);
        }
        let host = self.host(uri, headers).ok_or(Refusal::OtherHost)?;
        let post = method == Method::POST;
        let upgrade = headers.contains_key(header::UPGRADE);
        match single_header(headers, header::ORIGIN) {
            Ok(None) if !post && !upgrade => {}
            Ok(Some(origin)) if origin == format!("http://{host}") => {}
            _ => return Err(Refusal::OtherOrigin),
        }
        let admission = self.token_of(method, uri, headers).ok_or(Refusal::NoToken)?;
        let looks = method == Method::GET || method == Method::HEAD;
        if !looks && !self.steer { Err(Refusal::ReadOnly) } else { Ok(admission) }
    }

    /// Returns the requested host if it is a name of this server.
    fn host(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let host = single_header(headers, header::HOST).ok()??.to_ascii_lowercase();
        // An absolute request URI must name the same host.
        let named = uri.authority().is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(&host));
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
            _ => (host.as_str(), 80),
        };
        let ours = matches!(name, "127.0.0.1" | "[::1]" | "localhost") && port == self.port;
        (ours && named).then_some(host)
    }

    /// Checks how the request presents the token; `None` if it does not.
    fn token_of(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Admission> {
        let query = uri.query().unwrap_or_default();
        let given = query.split('&').find_map(|pair| pair.strip_prefix("token="));
        if uri.path() == "/" && method == Method::GET && given.is_some() {
            return given.filter(|token| self.token.is(token)).map(|_| Admission::Login);
        }
        if let Ok(Some(authorization)) = single_header(headers, header::AUTHORIZATION) {
            let (scheme, token) = authorization.split_once(' ')?;
            let bears = scheme.eq_ignore_ascii_case("bearer") && self.token.is(token.trim());
            return bears.then_some(Admission::Granted);
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(key, value)| key == name && self.token.is(value)).then_some(Admission::Granted)
    }
}

/// Returns the value of a header that must occur at most once and be text.
fn single_header(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const HOST: &str = "127.0.0.1:7420";

    fn guard(steer: bool) -> Guard {
        Guard::new(Token("0123456789abcdef0123456789abcdef".into()), 7420, steer)
    }

    fn us() -> Peer {
        Peer { address: "127.0.0.1:50000".parse().unwrap(), user: Some(rustix::process::getuid().as_raw()) }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn asked(method: Method, uri: &str, pairs: &[(&'static str, &str)]) -> Result<Admission, Refusal> {
        guard(false).admit(us(), &method, &uri.parse().unwrap(), &headers(pairs))
    }

    const COOKIE: (&str, &str) = ("cookie", "a=b; tombolo-7420=0123456789abcdef0123456789abcdef");

    #[test]
    fn the_token_opens() {
        let bearer = ("authorization", "Bearer 0123456789abcdef0123456789abcdef");
        for shown in [COOKIE, bearer] {
            for host in [HOST, "localhost:7420", "[::1]:7420", "LOCALHOST:7420"] {
                assert_eq!(asked(Method::GET, "/", &[("host", host), shown]), Ok(Admission::Granted));
            }
        }
        let link = "/?token=0123456789abcdef0123456789abcdef";
        assert_eq!(asked(Method::GET, link, &[("host", HOST)]), Ok(Admission::Login));
    }

    #[test]
    fn no_other_token_does() {
        for shown in [
            ("accept", "*/*"),
            ("cookie", "tombolo-7420="),
            ("cookie", "tombolo-7420=0123456789abcdef0123456789abcde"),
            ("cookie", "tombolo-7420=0123456789abcdef0123456789abcdef0"),
            ("cookie", "tombolo-7421=0123456789abcdef0123456789abcdef"),
            ("authorization", "Basic 0123456789abcdef0123456789abcdef"),
            ("authorization", "0123456789abcdef0123456789abcdef"),
        ] {
            let refused = asked(Method::GET, "/", &[("host", HOST), shown]);
            assert_eq!(refused, Err(Refusal::NoToken), "{shown:?}");
        }
        assert_eq!(asked(Method::GET, "/?token=0", &[("host", HOST), COOKIE]), Err(Refusal::NoToken));
        let elsewhere = "/live?token=0123456789abcdef0123456789abcdef";
        assert_eq!(asked(Method::GET, elsewhere, &[("host", HOST)]), Err(Refusal::NoToken));
    }

    #[test]
    fn dns_rebinding_is_refused() {
        for host in
            ["evil.example:7420", "127.0.0.1", "127.0.0.1:7421", "127.0.0.1.evil.example:7420", "[::1]", ""]
        {
            assert_eq!(asked(Method::GET, "/", &[("host", host), COOKIE]), Err(Refusal::OtherHost), "{host}");
        }
        assert_eq!(asked(Method::GET, "/", &[COOKIE]), Err(Refusal::OtherHost));
        let two = [("host", HOST), ("host", HOST), COOKIE];
        assert_eq!(asked(Method::GET, "/", &two), Err(Refusal::OtherHost));
        let absolute = asked(Method::GET, "http://evil.example:7420/", &[("host", HOST), COOKIE]);
        assert_eq!(absolute, Err(Refusal::OtherHost));
    }

    #[test]
    fn other_origins_are_refused_and_changes_name_theirs() {
        for origin in ["http://evil.example", "null", "https://127.0.0.1:7420", "http://localhost:7420", ""] {
            let refused = asked(Method::GET, "/", &[("host", HOST), ("origin", origin), COOKIE]);
            assert_eq!(refused, Err(Refusal::OtherOrigin), "{origin}");
        }
        let upgrade = ("upgrade", "websocket");
        assert_eq!(
            asked(Method::GET, "/live", &[("host", HOST), upgrade, COOKIE]),
            Err(Refusal::OtherOrigin)
        );
        assert_eq!(asked(Method::POST, "/api/kill", &[("host", HOST), COOKIE]), Err(Refusal::OtherOrigin));
        let own = ("origin", "http://127.0.0.1:7420");
        assert_eq!(
            asked(Method::GET, "/live", &[("host", HOST), upgrade, own, COOKIE]),
            Ok(Admission::Granted)
        );
    }

    #[test]
    fn read_only_mode_is_enforced() {
        let all = headers(&[("host", HOST), ("origin", "http://127.0.0.1:7420"), COOKIE]);
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let admit = |steer| guard(steer).admit(us(), &method, &"/api/kill".parse().unwrap(), &all);
            assert_eq!(admit(false), Err(Refusal::ReadOnly));
            assert_eq!(admit(true), Ok(Admission::Granted));
        }
    }

    #[test]
    fn strangers_are_refused_first() {
        let ours = us().user.unwrap();
        for peer in [
            Peer { user: None, ..us() },
            Peer { user: Some(ours.wrapping_add(1).max(1)), ..us() },
            Peer { address: "192.0.2.1:50000".parse().unwrap(), ..us() },
        ] {
            let refused = guard(true).admit(peer, &Method::GET, &"/".parse().unwrap(), &headers(&[COOKIE]));
            assert_eq!(refused, Err(Refusal::Stranger), "{peer:?}");
        }
        let root = Peer { user: Some(0), ..us() };
        let asked = headers(&[("host", HOST), COOKIE]);
        assert!(guard(false).admit(root, &Method::GET, &"/".parse().unwrap(), &asked).is_ok());
    }

    #[test]
    fn tokens_differ_and_are_not_shown() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(one.as_str().len(), 32);
        assert!(one.is(one.as_str()) && !one.is(other.as_str()));
        assert!(!format!("{one:?}").contains(one.as_str()));
    }
}
