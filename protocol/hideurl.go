package protocol

import (
	"bytes"
	"net/url"
	"regexp"
)

// HideURL returns a URL without what may be secret in it: the user, the path and the query.
func HideURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "..."
	}
	return u.Scheme + "://" + u.Host + "/..."
}

var urlInTags = regexp.MustCompile(`https?://[^\s"]*`)

// HideURLs returns the tags of a line with their URLs as HideURL returns them.
func HideURLs(tags []byte) string {
	return string(urlInTags.ReplaceAllFunc(bytes.TrimSpace(tags), hide))
}

func hide(text []byte) []byte { return []byte(HideURL(string(text))) }
