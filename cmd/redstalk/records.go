package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file has what the lists of schedules, of batches and of their members have in common.

// eachListed calls do with all that a command lists, a page at a time: that has the items as a list of this name. command lacks
// COUNT and CURSOR, and doing says what it does.
func eachListed[T any](t *task, doing, command, name string, do func(*T) error) error {
	for cursor, more := "", true; more && t.Context.Context.Err() == nil; more = cursor != "" {
		var page struct {
			Next  string
			Lists map[string]yaml.Node `yaml:",inline"`
		}
		if err := t.yamlPage(doing, strings.TrimSpace(fmt.Sprintf("%s %d %s", command, maxPageJobs, cursor)), &page); err != nil {
			return err
		}
		var items []T
		if list := page.Lists[name]; list.Decode(&items) != nil {
			return fmt.Errorf("%s: the page has no list of %s", doing, name)
		}
		for i := range items {
			if err := do(&items[i]); err != nil {
				return err
			}
		}
		cursor = page.Next
	}
	return nil
}

// printListed prints all of it: as a table, or as JSON. show returns both for an item.
func printListed[T any](t *task, b *table, doing, command, name string, show func(*T) (shown any, row []string)) error {
	err := eachListed(t, doing, command, name, func(item *T) error {
		shown, row := show(item)
		if t.Bool("json") {
			return t.printJSON(shown)
		}
		b.add(row...)
		return nil
	})
	if err != nil || t.Bool("json") {
		return err
	}
	return b.print(t.out)
}

// yamlPage requests a page and decodes it.
func (t *task) yamlPage(doing, command string, into any) error {
	text, err := t.page(doing, command)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%s: reading the page: %w", doing, err)
	}
	return nil
}
