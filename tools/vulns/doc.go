// Package vulns contains check.sh, with which `make check` looks for known vulnerabilities, and its test.
package vulns
