// Package vulns tests check.sh, with which `make check` looks for known vulnerabilities. There is no
// code here.
package vulns
