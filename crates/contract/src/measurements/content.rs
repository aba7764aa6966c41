//! Outcome of a check of a transfer's content.

use deadheat_base::unset::is_unset;
use serde::{Deserialize, Serialize};

/// Result of the comparison of the received content with the sent content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// Complete and correct: all of it arrived, and every byte is equal.
    Verified,
    /// Not compared.
    NotVerified,
    /// Some of it never arrived. If the content is generated, the part that arrived is correct.
    Partial,
    /// The content that arrived differs from the content sent.
    Differs,
}

/// Content of a transfer at both ends.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Result of the comparison of the received content with the sent content.
    pub state: ContentState,
    /// Digest of the received content, or of the sent content if the received one was not read: `sha256 ` and 64
    /// hexadecimal digits, as `sha256sum` prints them; absent if not computed.
    pub content: Option<String>,
    /// Content bytes that were sent, without headers of messages.
    pub bytes: u64,
    /// Bytes of them that never arrived; absent if all did.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub bytes_missing: u64,
    /// Offset of the first byte that differs, from 0; absent if none does, or if not compared.
    pub differs_at: Option<u64>,
    /// File with the received content: the path given, or the same with `.partial` appended; absent if none was
    /// written.
    pub file: Option<String>,
}
