// The page of speech models.

export async function mount(root, models, examples) {
  root.append(models.map((model) => model.name).join(", "));
}
