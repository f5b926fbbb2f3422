"""Did a model become slower, larger or another one since its baseline? Pure: two records in, changes out.

manifest    what is to be checked, in which TOML
records     what a baseline keeps of each model, and that nobody edited it
answer      what `chimera ci` says
layers      layers that are slower or keep more, beyond the noise of both profiles
shapes      what the model is: vocabulary, attention, heads, sizes, numbers of layers
outcomes    the plans: fits no longer, lower throughput, another best configuration
check       what a service keeps of a model that was checked
comparison  all of these, whether two profiles can be compared, and what changed beside the model
junit, summary  the answer as JUnit XML, and as Markdown for a pull request
"""
