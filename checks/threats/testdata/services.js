// A service that finds its handlers in the ways of Node programs, and lets clients change the
// protocol. Arguments: the port.
'use strict'
const http = require('http')
const path = require('path')
const querystring = require('querystring')

const exact = {
  '/by/header': 'header', '/by/query': 'query', '/by/cookie': 'cookie', '/by/bearer': 'bearer', '/by/host': 'host', '/by/method': 'method',
  '/by/claim': 'claim', '/if/header': 'ifheader', '/if/query': 'ifquery', '/if/cookie': 'ifcookie', '/if/number': 'ifnumber',
  '/signed/cookie': 'signedcookie', '/signed/query': 'signedquery', '/signed/header': 'signedheader', '/signed/auth': 'signedauth', '/if/host': 'ifhost', '/gone': 'gone',
  '/plan/header': 'planheader', '/plan/query': 'planquery', '/plan/cookie': 'plancookie', '/plan/none': 'anonymous',
}

const quietly = (f, otherwise) => { try { return f() } catch { return otherwise } }

// handler returns the name of the handler of a path, and the user that the path names.
function handler (method, p) {
  const bare = p.length > 1 && p.endsWith('/') ? p.slice(0, -1) : p
  if (bare === '/login') return method === 'POST' ? ['login'] : []
  if (bare === '/admin' || p.startsWith('/admin/')) return ['admin']
  if (bare === '/area/open' || p.startsWith('/area/open/') || p.startsWith('/public/')) return ['public']
  if (p.startsWith('/area/')) return ['closed']
  if (exact[bare]) return [exact[bare]]
  const user = /^\/users\/([^/]+)$/.exec(bare)
  return user ? ['user', quietly(() => decodeURIComponent(user[1]), user[1])] : []
}

// cookies returns all values of a cookie, as the usual packages read them.
function cookies (header, name) {
  const values = []
  for (const pair of (header || '').split(';')) {
    const at = pair.indexOf('=')
    if (at < 0 || pair.slice(0, at).trim() !== name) continue
    let value = pair.slice(at + 1).trim()
    if (value.startsWith('"')) value = value.slice(1, -1)
    values.push(quietly(() => decodeURIComponent(value), value))
  }
  return values
}

function ends (values) {
  return values && values.length > 0 ? [values[0], values[values.length - 1]] : ['']
}

function record (req) {
  const h = req.headers
  const overridden = h['x-http-method-override'] || h['x-http-method'] || h['x-method-override']
  const method = overridden && req.method === 'POST' ? overridden.toUpperCase() : req.method
  const host = h.host || ''
  const raw = req.url.split('?')[0] // a service that does not decode a path is not one of these
  const url = quietly(() => new URL(req.url, 'http://' + host), null) || quietly(() => new URL(req.url, 'http://localhost'), null)
  const paths = new Set([quietly(() => decodeURIComponent(raw), raw)])
  if (url) paths.add(quietly(() => decodeURIComponent(url.pathname), url.pathname))
  for (const p of [...paths]) paths.add(path.posix.normalize(p))
  const ran = new Set()
  const ids = new Set()
  for (const p of paths) {
    const [name, id] = handler(method, p)
    if (name) ran.add(name)
    if (id !== undefined) ids.add(id)
  }
  const hostname = (host.startsWith('[') ? host : host.split(':')[0]).toLowerCase().replace(/\.$/, '')
  for (const name of [hostname, url ? url.hostname : hostname]) {
    if (name === 'api.example.com') ran.add('api')
    if (name.endsWith('.internal.example')) ran.add('wild')
  }
  const parsed = querystring.parse(req.url.split('?').slice(1).join('?'))
  const query = name => {
    const values = [].concat(parsed[name] === undefined ? [] : parsed[name])
    return ends(values).concat(url ? ends(url.searchParams.getAll(name)) : [])
  }
  const distinct = req.headersDistinct
  const header = name => [h[name] || ''].concat(ends(distinct[name]))
  const forwarding = Object.entries(distinct).concat(Object.entries(req.trailersDistinct)).flatMap(([name, values]) => values.map(v => name + ': ' + v))
  process.stdout.write(JSON.stringify({
    server: 'node', case: h['x-case'] || '', ran: [...ran], method, path: req.url, host: [hostname],
    user: header('x-user'), plan: header('x-plan'), apikey: header('x-api-key'),
    query: query('user'), queryplan: query('plan'), cookie: ends(cookies(h.cookie, 'session')), cookieplan: ends(cookies(h.cookie, 'plan')),
    authorization: [h.authorization || ''].concat(ends(distinct.authorization)), id: [...ids], forwarding,
  }) + '\n')
}

const server = http.createServer((req, res) => {
  req.resume()
  req.on('error', () => {})
  const done = () => { record(req); res.end('ok') }
  if (req.complete) done()
  else req.on('end', done)
})
// Any protocol but WebSocket goes on with requests, as h2c does. A WebSocket is opened
// only for a complete handshake.
server.on('upgrade', (req, socket, head) => {
  record(req)
  socket.on('error', () => {})
  const protocol = (req.headers.upgrade || '').toLowerCase()
  if (protocol === 'websocket' && req.headers['sec-websocket-version'] !== '13') {
    socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    return
  }
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ' + req.headers.upgrade + '\r\n\r\n')
  if (protocol === 'websocket') {
    socket.resume()
    return
  }
  socket.unshift(head)
  server.emit('connection', socket)
})
server.on('clientError', (err, socket) => { socket.destroy(err) })
server.keepAliveTimeout = 60000
server.listen(Number(process.argv[2]), '127.0.0.1')
