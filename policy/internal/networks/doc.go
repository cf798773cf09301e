// Package networks finds out whether an address is in one of many networks.
package networks
