//! Outcome of a check of a transfer's content.

use deadheat_base::unset::is_unset;
use serde::{Deserialize, Serialize};

/// Result of comparing what arrived with what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// Complete and correct: all of it arrived, and every byte is what was sent.
    Verified,
    /// Not compared.
    NotVerified,
    /// Some of it never arrived. Of made-up content, what did arrive is what was sent.
    Partial,
    /// The content that arrived differs from the content sent.
    Differs,
}

/// A transfer's content, as it was sent and as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Result of comparing what arrived with what was sent.
    pub state: ContentState,
    /// Digest of what arrived, or of what was sent if nobody looked at what arrived: `sha256 ` and
    /// 64 hexadecimal digits, as `sha256sum` prints them; absent if it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Content bytes that were sent, headers of messages not counted.
    pub bytes: u64,
    /// Bytes of them that never arrived; absent if all did.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub bytes_missing: u64,
    /// The first byte that is not what was sent, from 0; absent if all are, or nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs_at: Option<u64>,
    /// The file that holds what arrived: the one asked for, or the same with `.partial` behind it;
    /// absent if none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}
