//! stub
use super::*;
pub struct Tcp;
impl Transport for Tcp {
    fn info(&self) -> &'static Info {
        todo!()
    }
    fn check(&self) -> Result<()> {
        todo!()
    }
    fn dial(&self, _: &Dial<'_>) -> Result<Box<dyn Conn>> {
        todo!()
    }
    fn listen(&self, _: Listen<'_>) -> Result<Box<dyn Listener>> {
        todo!()
    }
}
