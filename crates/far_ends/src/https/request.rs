//! Request for a document, the same in every version of HTTP.

use deadheat_datapath::transport::far_end::Locator;

/// Request for a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// Host, with its port unless that is the usual one.
    pub(super) authority: String,
    pub(super) path: String,
    /// Name and version of this program.
    pub(super) agent: String,
}

impl Request {
    /// Creates the request for what `locator` names.
    pub(super) fn of(locator: &Locator) -> Request {
        let authority = locator.authority.strip_suffix(":443").unwrap_or(&locator.authority);
        Request {
            authority: authority.to_owned(),
            path: locator.path.clone(),
            agent: concat!("deadheat/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// Returns the URL, for messages.
    pub(super) fn url(&self) -> String {
        format!("https://{}{}", self.authority, self.path)
    }
}
