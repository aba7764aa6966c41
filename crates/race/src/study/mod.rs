//! Studies: files with the races of one question, the figures that others published about it, and their claims. A
//! run compares published figures with measured ones and rules on the claims.
//!
//! | file | content |
//! |---|---|
//! | [`read`] | parsing of a study file, and its checks |
//! | [`check`] | checks of a study before it runs |
//! | [`bundled`] | the studies in the program |
//! | [`plan`] | a race of a study as a request for a race |
//! | [`run`] | race after race into a directory, and resuming of an interrupted run |
//! | `lock` | lock on a directory, for one study at a time |
//! | [`judge`], `agree`, `fault` | published figures beside measured ones, and claims; pure |
//! | `again` | earlier runs, judged by the current rules and claims; pure |
//! | [`save`] | writing and reading these results |

mod again;
mod agree;
pub mod bundled;
pub mod check;
mod fault;
pub mod judge;
mod lock;
pub mod plan;
pub mod read;
#[cfg(any(test, feature = "testing"))]
pub mod restated;
pub mod run;
pub mod save;
