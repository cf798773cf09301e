// Package secret reads what a configuration names but must not contain: secrets, from files and variables, and
// certificates with their keys. Errors name the setting, and what to do.
package secret
