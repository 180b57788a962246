//! URLs as they may be printed.

/// The URL without user, password and query values.
pub(crate) fn url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    match path.split_once('?') {
        Some((path, _)) => format!("{scheme}://{host}{path}?…"),
        None => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn drops_credentials_and_query() {
        assert_eq!(super::url("http://u:p@h:8/a/b?sig=1"), "http://h:8/a/b?…");
        assert_eq!(super::url("https://h/a@b"), "https://h/a@b");
        assert_eq!(super::url("/srv/a.raw"), "/srv/a.raw");
    }
}
