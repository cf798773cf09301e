// Package forwardauth is the edge for gateways that send a request of their own before they pass a client's request on,
// and follow the status of the answer: auth_request of nginx, ForwardAuth of Traefik, and forward_auth of Caddy. The
// headers of the gateway's request describe the client's request.
//
// The answer is 200, or the status of a denial, with the rate-limit headers in both cases. A delay is carried out
// before the answer. The edge sees neither the end of the client's request nor its response. So leases are given
// back at once, and costs that depend on a response stay as estimated.
package forwardauth
