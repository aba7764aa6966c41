//! Conclusions from the trials of a race: summaries, verdicts, differences, warnings; and comparisons of races.
//! They are a function of the result.
//!
//! | file | purpose |
//! |---|---|
//! | [`derived`] | all results that follow from the trials, while a race runs and when it is read |
//! | [`verdicts`], [`judgement`], [`claims`] | from trials to summary and verdicts; the judgement of pairs; the claims and their error levels |
//! | `table` | figures by contender and block, and their log-ratios |
//! | [`contests`] | shares of contenders and loads at one bottleneck, and harm |
//! | [`course`] | the work over time, before, during and after a load |
//! | [`time_differences`] | claims on differences in time, free of the offset between two hosts' clocks |
//! | `control` | a contender against its hidden copy |
//! | [`sentence`] | verdicts in words |
//! | [`against`] | claims on one contender against another one |
//! | [`differences`] | differences in conditions between contenders, and their importance |
//! | [`host_use`] | other programs on this host, as part of the verdicts |
//! | [`warnings`], `host_notice`, [`notice`], `loss_words` | warnings to read before believing a race, in words; [`notice`] for events |
//! | [`exclusions`], `order`, `settings` | evidence: trials excluded by gates, positions in a block, changed settings |
//! | [`no_figures`] | contenders without a valid trial, and the reason |
//! | [`losses`], `path_account` | evidence: lost messages, the account of a path |
//! | [`lost_shares`] | lost shares of contenders, and figures that leave them out |
//! | [`pauses`] | pauses between blocks that a person asked for |
//! | [`path_ways`] | behaviour of an emulated path over a race |
//! | [`reconnection`] | outages of contenders, and connections kept or lost |
//! | [`shares`] | shares of variation that each condition accounts for, in a race over conditions |
//! | [`sweep`] | the knee of each contender, in a race over offered loads |
//! | [`theory`] | closed forms beside the measurement |
//! | [`spread`], [`pooled`] | spread of figures, for drawings; pooled round trips, from raw samples |
//! | [`mod@highs`] | highs and lows of a race over hours or days |
//! | [`mod@compare`], [`independent`] | comparison of saved races; verdicts on unpaired trials |
//! | [`black_hole`] | paths on which large packets vanish, and paths that were not probed |
//! | [`translated`] | address translation between the ends, behind which a floor may be another host's |
//! | [`kind`], [`conditions`] | properties that runs of the same thing share; conditions that differ between them |
//! | [`mod@history`] | repeated runs of a race: series and changes of level |

pub mod against;
pub mod black_hole;
pub mod claims;
pub mod compare;
pub mod conditions;
pub mod contests;
mod control;
pub mod course;
pub mod derived;
pub mod differences;
pub mod exclusions;
mod fallbacks;
pub mod far_end;
pub mod gate;
pub mod headline;
pub mod highs;
pub mod history;
mod host_notice;
pub mod host_use;
pub mod independent;
pub mod judgement;
pub mod kind;
mod library_limits;
mod loss_words;
pub mod losses;
pub mod lost_shares;
mod nat;
pub mod no_figures;
pub mod notice;
mod order;
mod own_state;
mod path_account;
pub mod path_ways;
pub mod pauses;
pub mod pooled;
pub mod reconnection;
mod rewritten;
pub mod sentence;
pub mod settings;
pub mod shares;
pub mod spread;
pub mod sweep;
mod table;
pub mod theory;
pub mod time_differences;
pub mod translated;
pub mod verdicts;
pub mod warnings;
