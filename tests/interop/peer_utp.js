// The other end of a uTP connection, by utp-native over the C++ library libutp: `listen PORT` answers each byte with itself,
// `dial PORT` sends bytes and checks that all come back. Each ends its direction once all is sent.
const utp = require('utp-native')

const BYTES = 1000000

function content (number, length) {
  const bytes = Buffer.alloc(length)
  for (let i = 0; i < length; i++) bytes[i] = (number * 197 + i * 31 + (i >> 8)) & 255
  return bytes
}

function fail (why) {
  console.log(why)
  process.exit(1)
}

function listen (port) {
  const server = utp.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('data', (bytes) => socket.write(bytes))
    socket.on('end', () => socket.end())
    socket.on('error', (error) => fail(error.message))
  })
  server.listen(port, '127.0.0.1', () => console.log('ready'))
}

function dial (port) {
  const socket = utp.connect(port, '127.0.0.1', { allowHalfOpen: true })
  const sent = content(1, BYTES)
  const back = []
  let length = 0
  socket.on('connect', () => socket.write(sent))
  socket.on('error', (error) => fail(error.message))
  socket.on('data', (bytes) => {
    back.push(bytes)
    length += bytes.length
    if (length < BYTES) return
    if (!Buffer.concat(back).equals(sent)) fail('what came back is not what was sent')
    console.log('all came back')
    process.exit(0)
  })
}

const ends = { listen, dial }
ends[process.argv[2]](Number(process.argv[3]))
