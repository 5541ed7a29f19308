"""The UI (`tagrpo ui`): Streamlit pages that read the database."""
