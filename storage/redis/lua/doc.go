// Package lua has the scripts that run in Redis, and what they share with their callers.
//
// # Reading order
//
// Begin with keys.md (the keys) and main.lua (the script that carries out a call, with its
// operations). Then:
//
//   - scripts: how a script is put together from its files.
//   - call: what the main script and its caller agree on.
//   - data and metadata: constants and rules that Go and Lua share. They are written once, in
//     Go (packages schema and tube), and generated into the scripts.
package lua
