// Package edge is the wing of the protocols by which clients and gateways reach the server: one room for each.
//
// An edge translates its protocol into requests of package policy, and carries the verdict out through package gate. It
// imports no other edge. What several of them need is in gateway, pipeline and listen. Only app imports edges, and
// config their settings.
package edge
