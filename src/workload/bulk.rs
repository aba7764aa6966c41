//! stub
use super::*;
pub struct Bulk;
impl Workload for Bulk {
    fn info(&self) -> &'static Info {
        todo!()
    }
    fn task(&self, _: &Spec) -> Result<Box<dyn Task>> {
        todo!()
    }
}
