//! Documents that a connection has brought: how long they are, and what the first one is.

use sha2::{Digest, Sha256};

use super::head::Head;
use deadheat_datapath::transport::Effective;

/// Bytes of a digest that are shown.
const SHOWN: usize = 8;

/// Facts of the documents of a connection.
#[derive(Default)]
pub(super) struct Documents {
    /// Digest of the first one, while it arrives.
    digest: Option<Sha256>,
    first: Option<String>,
    /// Shortest and longest of those that are whole.
    lengths: Option<(u64, u64)>,
    status: u16,
    alt_svc: Option<String>,
    has_head: bool,
}

impl Documents {
    /// Notes the header of a document.
    pub(super) fn head(&mut self, head: &Head) {
        if !self.has_head {
            self.digest = Some(Sha256::new());
        }
        (self.has_head, self.status) = (true, head.status);
        self.alt_svc.clone_from(&head.alt_svc);
    }

    /// Notes bytes of a document; `is_first` for those of the first.
    pub(super) fn body(&mut self, is_first: bool, bytes: &[u8]) {
        if let Some(digest) = self.digest.as_mut().filter(|_| is_first) {
            digest.update(bytes);
        }
    }

    /// Notes the end of a document of `bytes` bytes.
    pub(super) fn end(&mut self, is_first: bool, bytes: u64) {
        if is_first && let Some(digest) = self.digest.take() {
            let digest = digest.finalize();
            let hex: Vec<String> =
                digest.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
            self.first = Some(hex.concat());
        }
        let (least, most) = self.lengths.unwrap_or((bytes, bytes));
        self.lengths = Some((least.min(bytes), most.max(bytes)));
    }

    /// Returns the facts as options in effect.
    pub(super) fn effective(&self) -> Effective {
        let mut all = Effective::new();
        if !self.has_head {
            return all;
        }
        let alt_svc = self.alt_svc.clone().unwrap_or_else(|| "none".to_owned());
        all.insert(ALT_SVC.to_owned(), alt_svc);
        if let Some((least, most)) = self.lengths {
            let lengths =
                if least == most { format!("{least}") } else { format!("{least} to {most}") };
            let digest =
                self.first.as_ref().map(|hex| format!(", SHA-256 {hex}…")).unwrap_or_default();
            all.insert(DOCUMENT.to_owned(), format!("{}, {lengths} B{digest}", self.status));
        }
        all
    }
}

/// Options in effect: the version of HTTP, the document, and the services that the far end announces for it.
pub(super) const HTTP: &str = "http";
pub(super) const DOCUMENT: &str = "document";
pub(super) const ALT_SVC: &str = "alt_svc";
