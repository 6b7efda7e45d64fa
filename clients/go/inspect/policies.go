package inspect

import (
	"context"
	"maps"
	"slices"

	"redstalk/clients/go/client"
)

// A Policy has the tags of a tube's policy, such as retry, max, dead and quota-jobs, as the server writes them.
type Policy map[string]string

// Policies returns the tubes that have a policy.
func (in *Inspector) Policies(ctx context.Context) ([]string, error) {
	page, err := in.page(ctx, client.Policies, "list-policies")
	return list(page), err
}

// Policy returns the policy of a tube, or [client.ErrNotFound].
func (in *Inspector) Policy(ctx context.Context, tube string) (Policy, error) {
	page, err := in.page(ctx, client.Policies, "get-policy "+tube)
	if err != nil {
		return nil, err
	}
	return fields(page), nil
}

// SetPolicy sets the policy of a tube, which replaces the one it had. An empty one deletes it. An invalid tag or
// value is a [client.ErrInvalid].
func (in *Inspector) SetPolicy(ctx context.Context, tube string, p Policy) error {
	line := "set-policy " + tube
	for _, name := range slices.Sorted(maps.Keys(p)) {
		line += " " + name + ":" + p[name]
	}
	_, err := in.change(ctx, "SET", client.Command{Line: line, Repeat: true, Needs: client.Policies})
	return err
}
